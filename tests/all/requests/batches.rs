//! Ids that listings name: distinct over all regions, in full batches, nothing fresh, nothing for nothing.

use crate::support::world::World;

const TRENDING: [&str; 4] = ["--region", "all", "--job", "trending"];

/// How many ids each request of a call asked for, in order.
fn asked(world: &World, call: &str) -> Vec<u64> {
    let requests = world.sandbox_says("requests");
    let of_call = requests
        .as_array()
        .unwrap()
        .iter()
        .filter(|request| request["call"] == call);
    of_call
        .map(|request| request["ids"].as_u64().unwrap())
        .collect()
}

/// How many channels the listings name: in each region, and in all of them together.
fn named(world: &World) -> (i64, i64) {
    let from = "from listing join record using (upstream, kind, id) where call = 'videos.list'";
    let by_region =
        format!("select count(distinct pass || ' ' || (body ->> '$.snippet.channelId')) {from}");
    (
        world.count(&by_region),
        world.count(&format!(
            "select count(distinct body ->> '$.snippet.channelId') {from}"
        )),
    )
}

#[test]
fn a_channel_that_eight_regions_name_is_asked_for_once_in_full_batches() {
    for concurrency in ["1", "4"] {
        let world = World::new();
        let run = world.json(&[&TRENDING[..], &["--concurrency", concurrency]].concat());
        assert_eq!(run["outcome"], "complete", "{run}");
        let (by_region, distinct) = named(&world);
        assert!(
            2 * by_region > 3 * distinct,
            "the charts overlap: {by_region} {distinct}"
        );
        let (asked, distinct) = (
            asked(&world, "channels.list"),
            u64::try_from(distinct).unwrap(),
        );
        assert_eq!(asked.iter().sum::<u64>(), distinct, "{asked:?}");
        assert_eq!(asked.len() as u64, distinct.div_ceil(50), "{asked:?}");
        assert_eq!(world.counted("daily"), 32 + distinct.div_ceil(50));
    }
}

#[test]
fn a_step_with_nothing_to_ask_is_neither_charged_nor_stopped() {
    let mut world = World::new();
    assert_eq!(world.json(&TRENDING)["outcome"], "complete");
    let batches = asked(&world, "channels.list").len() as u64;
    world.set("jobs.trending.every=1us");
    assert_eq!(world.json(&TRENDING)["outcome"], "complete");
    assert_eq!(
        world.counted("daily"),
        64 + batches,
        "every channel is fresh"
    );

    // Of a limit without a unit nothing is needed.
    world.set("upstreams.youtube.calls.\"channels.list\".cost={ search = 1 }");
    world.set("credentials.youtube.limits.search={ quota = 1, window = \"24h\" }");
    assert_eq!(
        world.ingest(&["charge", "youtube", "channels.list"]).code,
        0
    );
    let run = world.json(&TRENDING);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(world.requests(), 96 + batches);
}
