//! Every command and every view of the server over a filled state directory: what there can be more of, and what may take longer
//! then.

use super::grown::{Grows, Growth, Rule, Taken};
use super::place::server::Server;
use super::place::{Place, Size};
use super::servers::{FILES, Servers, Stores};
use Thing::{Charges, Old, Open, Passes, Records, Regions};

/// What there is more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    /// Regions with a pass of a few records each.
    Regions,
    /// Records, each fortieth of a thousand with a pass.
    Records,
    /// Charges in the window.
    Charges,
    /// Regions whose pass is open.
    Open,
    /// Passes of the last days.
    Passes,
    /// Passes of a time that nothing asks for.
    Old,
}

const SIZE: Size = Size {
    regions: 8,
    records: 1_600,
    charges: 100,
    open: 0,
    before: (0, 0),
};

/// A thing, its name, and the size at so many times of it.
type More = (Thing, &'static str, fn(usize) -> Size);

const THINGS: &[More] = &[
    (Regions, "regions", |times| Size {
        regions: 30 * times,
        records: 150 * times,
        ..SIZE
    }),
    (Records, "records", |times| Size {
        records: 8_000 * times,
        ..SIZE
    }),
    (Charges, "charges", |times| Size {
        charges: 5_000 * i64::try_from(times).unwrap(),
        ..SIZE
    }),
    (Open, "open passes", |times| Size {
        regions: 240,
        records: 240,
        open: 30 * times,
        ..SIZE
    }),
    (Passes, "passes", |times| Size {
        before: (2_000 * i64::try_from(times).unwrap(), 1),
        ..SIZE
    }),
    (Old, "older passes", |times| Size {
        before: (2_000 * i64::try_from(times).unwrap(), 60),
        ..SIZE
    }),
];

/// A command or a view, and with what it may grow.
struct Act {
    name: &'static str,
    arguments: &'static [&'static str],
    time: &'static [Thing],
    /// Servers are asked for all of something at once, or page by page.
    statements: &'static [Thing],
}

const fn act(
    name: &'static str,
    arguments: &'static [&'static str],
    time: &'static [Thing],
    statements: &'static [Thing],
) -> Act {
    Act {
        name,
        arguments,
        time,
        statements,
    }
}

const NEVER_DUE: &str = "jobs.trending.every=\"30d\"";
const DUE: &str = "jobs.trending.every=\"1ms\"";
/// A directory that does not exist yet.
const NEW: &str = "NEW";

/// In this order: those that write come last.
const COMMANDS: &[Act] = &[
    act(
        "status",
        &["status"],
        &[Regions, Charges, Open, Passes],
        &[],
    ),
    act(
        "status --limits",
        &["status", "--limits"],
        &[Regions, Charges, Passes],
        &[],
    ),
    act(
        "history",
        // What no job spent is in the charges.
        &["history", "--since", "30d"],
        &[Regions, Records, Charges, Open, Passes],
        &[],
    ),
    act(
        "history of 3 hours",
        &["history", "--since", "3h"],
        &[Regions, Open],
        &[],
    ),
    act(
        "search, every record",
        &["search", "common"],
        &[Regions, Records, Open],
        &[],
    ),
    act("search, one record", &["search", "rare77"], &[Regions], &[]),
    act("search, none", &["search", "nowhere"], &[Regions], &[]),
    act(
        "search in a region",
        &["search", "common", "--region", "AB"],
        &[Regions, Records, Open],
        &[],
    ),
    act(
        "export",
        &["export", "--kind", "video"],
        &[Regions, Records, Open],
        &[Records, Open],
    ),
    act(
        "export, changed",
        &["export", "--kind", "video", "--since", "1min"],
        &[Regions, Records, Open],
        &[Open],
    ),
    act(
        "preview",
        &["--region", "all", "--dry-run"],
        &[Regions, Charges, Open, Passes],
        &[],
    ),
    act(
        "preview of a region",
        &["--region", "AA", "--dry-run"],
        &[Regions, Charges],
        &[],
    ),
    act("forecast", FORECAST, &[Regions, Charges, Open], &[]),
    act(
        "forecast at a limit",
        FORECAST_AT_A_LIMIT,
        &[Regions, Charges, Open],
        &[],
    ),
    act("check", &["check"], &[Regions], &[]),
    act(
        "backup",
        &["backup", NEW],
        &[Regions, Records, Charges, Open, Passes, Old],
        &[],
    ),
    act(
        "nothing due",
        // The limits that a run reports are read from the charges of a server.
        &["--region", "all", "--job", "trending", "--set", NEVER_DUE],
        &[Regions, Charges, Open],
        &[],
    ),
    act(
        "charge",
        &["charge", "youtube", "videos.list"],
        &[Regions],
        &[],
    ),
    act("release", &["release", "nothing"], &[Regions], &[]),
    act(
        "reopen",
        &["reopen", ACCOUNT, "daily"],
        &[Regions, Charges],
        &[],
    ),
    act(
        "run of a region",
        &["--region", "AA", "--job", "trending", "--set", DUE],
        &[Regions, Charges],
        &[],
    ),
    act(
        "repair",
        &["repair"],
        &[Regions, Records, Charges, Open, Passes, Old],
        &[Regions, Records, Open],
    ),
];
/// The account of the credential.
const ACCOUNT: &str = "ACCOUNT";

const FORECAST: &[&str] = &[
    "forecast",
    "--region",
    "all",
    "--schedule",
    "hourly",
    "--days",
    "2",
];
/// A tenth of the regions completes, and a limit stops the others.
const FORECAST_AT_A_LIMIT: &[&str] = &[
    "forecast",
    "--region",
    "all",
    "--schedule",
    "hourly",
    "--days",
    "2",
    "--set",
    "credentials.youtube.limits.daily.quota=3000",
];

/// Views of `ingest serve`; the argument is the path.
const VIEWS: &[Act] = &[
    act("/", &["/"], &[Regions, Charges, Open, Passes], &[]),
    act(
        "/history of a limit",
        &["/history?account=ACCOUNT&limit=daily"],
        &[Regions, Records, Charges, Open, Passes],
        &[],
    ),
    act(
        "/search",
        &["/search?q=common"],
        &[Regions, Records, Open],
        &[],
    ),
    act(
        "/search without words",
        &["/search?kind=video"],
        &[Regions, Records, Open],
        &[],
    ),
    act(
        "/record",
        &["/record?upstream=youtube&kind=video&id=v77"],
        &[],
        &[],
    ),
    act(
        "/history",
        &["/history"],
        &[Regions, Records, Charges, Open, Passes],
        &[],
    ),
    act(
        "/plan",
        &["/plan?schedule=hourly"],
        &[Regions, Charges, Open],
        &[],
    ),
    act("/metrics", &["/metrics"], &[Regions, Charges, Open], &[]),
    act(
        "/api/v1/status",
        &["/api/v1/status"],
        &[Regions, Charges, Open],
        &[],
    ),
    act(
        "/api/v1/history",
        &["/api/v1/history?since=3h"],
        &[Regions, Open],
        &[],
    ),
    act("/api/v1/search", &["/api/v1/search?q=rare77"], &[], &[]),
    act(
        "/api/v1/records",
        &["/api/v1/records/video?limit=5"],
        &[],
        &[],
    ),
    act(
        "/api/v1/records/ID",
        &["/api/v1/records/video/v77"],
        &[],
        &[],
    ),
];

/// Measures everything over files, and then the same over servers.
pub fn measure(
    growth: &mut Growth,
    times: &[usize],
    servers: &Servers,
    is_part: impl Fn(&str) -> bool,
) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (thing, name, size) in THINGS {
        if !is_part(name) {
            continue;
        }
        let filled = times
            .iter()
            .map(|times| runtime.block_on(Place::filled(size(*times))));
        let mut places: Vec<Place> = filled.collect();
        measure_over(growth, (*thing, name), &places, (FILES, 3));
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
        measure_over(growth, (*thing, name), &places, (stores, 3));
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
    measure_over(growth, (Regions, "nothing"), &places, (FILES, 1));
}

fn measure_over(
    growth: &mut Growth,
    (thing, name): (Thing, &str),
    places: &[Place],
    (stores, tries): (Stores<'_>, usize),
) {
    let over = format!("{name}, {}", stores.name);
    let rule = |act: &Act, time| Rule {
        name: act.name,
        over: &over,
        time,
        statements: Grows::with(act.statements.contains(&thing)),
    };
    for act in COMMANDS {
        let time = Grows::with(act.time.contains(&thing));
        growth.measure(&[rule(act, time)], tries, |at| {
            vec![command(&places[at], act, stores)]
        });
    }
    let servers: Vec<Server> = places.iter().map(Server::start).collect();
    for act in VIEWS {
        let time = Grows::with(act.time.contains(&thing));
        growth.measure(&[rule(act, time)], tries, |at| {
            vec![view(&places[at], &servers[at], act, stores)]
        });
    }
}

fn command(place: &Place, act: &Act, stores: Stores<'_>) -> Taken {
    let new = tempfile::tempdir().unwrap();
    let account = account(place);
    let arguments = act.arguments.iter().map(|argument| match *argument {
        NEW => new.path().to_str().unwrap(),
        ACCOUNT => &account,
        other => other,
    });
    let arguments: Vec<&str> = arguments.collect();
    stores.taken(|| {
        let measured = place.measure(&arguments);
        // Nothing has the id that is released: a file says so, and a server keeps it in case the charge comes late.
        let is_fine = measured.exit == "0" || act.name == "release";
        assert!(is_fine, "{arguments:?}: {measured:?}");
        measured
    })
}

fn view(place: &Place, server: &Server, act: &Act, stores: Stores<'_>) -> Taken {
    let path = act.arguments[0].replace(ACCOUNT, &account(place));
    // What a server took once it keeps, so its memory says nothing of one view.
    Taken {
        megabytes: 0.0,
        ..stores.taken(|| server.measure(&path))
    }
}

fn account(place: &Place) -> String {
    place.config().credentials["youtube"].account.name.clone()
}
