use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::world::World;

const KILLS: usize = 120;

/// Moments that nobody chose: a xorshift, so that a printed seed gives the same ones again.
struct Moments(u64);

impl Moments {
    fn seeded() -> Self {
        let given = std::env::var("KILLS_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_micros() as u64
                | 1
        });
        println!("KILLS_SEED={seed} gives these moments again");
        Self(seed)
    }

    /// Between the two.
    fn next(&mut self, shortest: Duration, longest: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        shortest + Duration::from_micros(self.0 % (longest - shortest).as_micros() as u64)
    }
}

/// A run, killed after this long; whether it had ended before.
fn run_for(world: &World, span: Duration) -> bool {
    let mut command = world.command(&["--region", "all", "--job", "trending", "-q"]);
    let mut run: Child = command.stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(span);
    let ended = run.try_wait().unwrap();
    run.kill().unwrap();
    assert!(ended.is_none_or(|status| status.success()), "{ended:?}");
    run.wait().unwrap();
    ended.is_some()
}

/// How long this machine takes to start the program, as busy as it is now.
fn time_to_start(world: &World) -> Duration {
    let begun = Instant::now();
    world.ingest(&["status"]);
    begun.elapsed()
}

/// What one walk over all regions must have left behind, however often it was killed.
fn assert_whole(world: &World) {
    let complete = "select count(*) from pass where outcome = 'complete' and region <> '*'";
    assert_eq!(world.count(complete), 8);
    assert_eq!(
        world.count("select count(*) from pass where finished_at is null"),
        0,
        "a pass stayed open"
    );
    assert_eq!(
        world.count("select count(*) from checkpoint where pass in (select id from pass where region <> '*')"),
        32
    );
    let lists = "select count(*) from (select count(*) as n, max(position) as last from listing
        where call = 'videos.list' group by pass having n <> 200 or last <> 200)";
    assert_eq!(world.count(lists), 0, "a list has gaps or something twice");
    let counts = "select count(*) from pass where pages <> (select count(*) from checkpoint where pass = pass.id)
        or records <> (select count(*) from (select 1 from listing where pass = pass.id
            group by step, id, requested, case when parent is null then position end))";
    assert_eq!(world.count(counts), 0, "a pass counts other than it landed");
    assert_eq!(
        world.count("select count(*) from record")
            - world.count("select count(*) from record_text"),
        0
    );
    let missing =
        "select count(*) from youtube_video where channel_id not in (select id from record where kind = 'channel')
        and channel_id not in (select id from absent where kind = 'channel')";
    assert_eq!(world.count(missing), 0, "a channel was not asked for");
}

#[test]
fn kills_land_nothing_twice_lose_nothing_and_the_ledger_never_counts_less() {
    let world = World::with(|options| options.latency = Duration::from_millis(3));
    let mut moments = Moments::seeded();
    let (mut kills, mut walks) = (0, 0);
    // Before that it reads its configuration and has opened no file.
    let start = time_to_start(&world);
    let (shortest, longest) = (start / 4, Duration::from_millis(145) + start);
    while kills < KILLS {
        if run_for(&world, moments.next(shortest, longest)) {
            assert_whole(&world);
            walks += 1;
            std::fs::remove_file(world.state_dir().join("catalog.db")).unwrap();
        } else {
            kills += 1;
        }
        let counted = world.counted("daily");
        assert!(
            world.recorded("daily") >= counted,
            "the ledger counts less than the sandbox"
        );
    }
    let last = world.ingest(&["--region", "all", "--job", "trending"]);
    assert_eq!(last.code, 0, "{last:?}");
    assert_whole(&world);
    println!(
        "{kills} kills, {} walks, {} requests",
        walks + 1,
        world.requests()
    );
}
