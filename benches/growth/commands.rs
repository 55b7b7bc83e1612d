//! Every command and every view of the server over a filled state directory: what there can be more of, and what may take longer
//! then.

use super::grown::{Grows, Growth, Rule, Taken};
use super::place::server::Server;
use super::place::{Place, Size};
use super::servers::{FILES, Servers, Stores};

const SIZE: Size = Size {
    regions: 8,
    records: 1_600,
    charges: 100,
    open: 0,
    before: (0, 0),
};

/// A thing, and the size at so many times of it.
type More = (&'static str, fn(usize) -> Size);

/// What there can be more of.
const THINGS: &[More] = &[
    // Each with a pass of a few records.
    ("regions", |times| Size {
        regions: 30 * times,
        records: 150 * times,
        ..SIZE
    }),
    // Each fortieth of a thousand with a pass.
    ("records", |times| Size {
        records: 8_000 * times,
        ..SIZE
    }),
    // In the window.
    ("charges", |times| Size {
        charges: 5_000 * i64::try_from(times).unwrap(),
        ..SIZE
    }),
    // Regions whose pass is open.
    ("open", |times| Size {
        regions: 240,
        records: 240,
        open: 30 * times,
        ..SIZE
    }),
    // Passes of the last days.
    ("passes", |times| Size {
        before: (2_000 * i64::try_from(times).unwrap(), 1),
        ..SIZE
    }),
    // Passes of a time that nothing asks for.
    ("old", |times| Size {
        before: (2_000 * i64::try_from(times).unwrap(), 60),
        ..SIZE
    }),
];

/// A command on each line, or the path of a view; behind it what its time may grow with; behind that what the statements may grow
/// with that servers execute: for what is asked for all at once, or page by page.
///
/// In this order: those that write come last. NEW is a directory that does not exist yet, ACCOUNT the account of the credential.
/// What no job spent is in the charges, so `history` may grow with them; so may a run with nothing due, which reports its limits.
const COMMANDS: &str = "
    status                                               | regions charges open passes
    status --limits                                      | regions charges passes
    history --since 30d                                  | regions records charges open passes
    history --since 3h                                   | regions open
    search common                                        | regions records open
    search rare77                                        | regions
    search nowhere                                       | regions
    search common --region AB                            | regions records open
    export --kind video                                  | regions records open | records open
    export --kind video --since 1min                     | regions records open | open
    --region all --dry-run                               | regions charges open passes
    --region AA --dry-run                                | regions charges
    forecast --region all --schedule hourly --days 2     | regions charges open
    forecast --region all --schedule hourly --days 2 --set credentials.youtube.limits.daily.quota=3000 | regions charges open
    check                                                | regions
    backup NEW                                           | regions records charges open passes old
    --region all --job trending --set jobs.trending.every=\"30d\" | regions charges open
    charge youtube videos.list                           | regions
    release nothing                                      | regions
    reopen ACCOUNT daily                                 | regions charges
    --region AA --job trending --set jobs.trending.every=\"1ms\" | regions charges
    repair                                               | regions records charges open passes old | regions records open";

/// Views of `ingest serve`.
const VIEWS: &str = "
    /                                                    | regions charges open passes
    /history?account=ACCOUNT&limit=daily                 | regions records charges open passes
    /search?q=common                                     | regions records open
    /search?kind=video                                   | regions records open
    /record?upstream=youtube&kind=video&id=v77           |
    /history                                             | regions records charges open passes
    /plan?schedule=hourly                                | regions charges open
    /metrics                                             | regions charges open
    /api/v1/status                                       | regions charges open
    /api/v1/history?since=3h                             | regions open
    /api/v1/search?q=rare77                              |
    /api/v1/records/video?limit=5                        |
    /api/v1/records/video/v77                            |";

/// A command or a view, and whether its time and its statements may grow with a thing.
struct Act {
    what: &'static str,
    time: Grows,
    statements: Grows,
}

fn acts(table: &'static str, thing: &str) -> impl Iterator<Item = Act> {
    table.trim().lines().map(move |line| {
        let mut columns = line.split('|');
        let what = columns.next().unwrap().trim();
        let [time, statements] = [(); 2].map(|()| {
            let mut things = columns.next().unwrap_or_default().split_whitespace();
            Grows::with(things.any(|one| one == thing))
        });
        Act {
            what,
            time,
            statements,
        }
    })
}

/// Measures everything over files, and then the same over servers.
pub fn measure(
    growth: &mut Growth,
    times: &[usize],
    servers: &Servers,
    is_part: impl Fn(&str) -> bool,
) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (name, size) in THINGS {
        if !is_part(name) {
            continue;
        }
        let filled = times
            .iter()
            .map(|times| runtime.block_on(Place::filled(size(*times))));
        let mut places: Vec<Place> = filled.collect();
        measure_over(growth, name, &places, (FILES, 3));
        let stores = servers.both();
        let rule = Rule {
            name: "catalog copy",
            over: name,
            time: Grows::With,
            statements: Grows::With,
        };
        let mut taken = Vec::new();
        for (place, times) in places.iter_mut().zip(times) {
            taken.push(stores.take(&runtime, place, size(*times).charges));
        }
        growth.add(&rule, &taken);
        measure_over(growth, name, &places, (stores, 3));
        growth.print();
    }
}

/// Everything once over two regions: whether it still works.
pub fn shortened(growth: &mut Growth) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let little = Size {
        regions: 2,
        records: 200,
        charges: 1,
        open: 1,
        before: (2, 1),
    };
    let places = [runtime.block_on(Place::filled(little))];
    measure_over(growth, "nothing", &places, (FILES, 1));
}

fn measure_over(
    growth: &mut Growth,
    thing: &str,
    places: &[Place],
    (stores, tries): (Stores<'_>, usize),
) {
    let over = format!("{thing}, {}", stores.name);
    let mut measure = |act: &Act, take: &dyn Fn(usize) -> Taken| {
        let rule = Rule {
            name: act.what,
            over: &over,
            time: act.time,
            statements: act.statements,
        };
        growth.measure(&[rule], tries, |at| vec![take(at)]);
    };
    for act in acts(COMMANDS, thing) {
        measure(&act, &|at| command(&places[at], act.what, stores));
    }
    let servers: Vec<Server> = places.iter().map(Server::start).collect();
    for act in acts(VIEWS, thing) {
        measure(&act, &|at| {
            view(&places[at], &servers[at], act.what, stores)
        });
    }
}

fn command(place: &Place, command: &str, stores: Stores<'_>) -> Taken {
    let new = tempfile::tempdir().unwrap();
    let account = account(place);
    let arguments = command.split_whitespace().map(|argument| match argument {
        "NEW" => new.path().to_str().unwrap(),
        "ACCOUNT" => &account,
        other => other,
    });
    let arguments: Vec<&str> = arguments.collect();
    stores.taken(|| {
        let measured = place.measure(&arguments);
        // Nothing has the id that is released: a file says so, and a server keeps it in case the charge comes late.
        let is_fine = measured.exit == "0" || command.starts_with("release");
        assert!(is_fine, "{command}: {measured:?}");
        measured
    })
}

fn view(place: &Place, server: &Server, path: &str, stores: Stores<'_>) -> Taken {
    let path = path.replace("ACCOUNT", &account(place));
    // What a server took once it keeps, so its memory says nothing of one view.
    Taken {
        megabytes: 0.0,
        ..stores.taken(|| server.measure(&path))
    }
}

fn account(place: &Place) -> String {
    place.config().credentials["youtube"].account.name.clone()
}
