//! What a random world is: a configuration, and what happens in it. Everything is a small number, so that proptest can shrink
//! it; every plan makes a configuration that is accepted.

use std::fmt::Write;
use std::time::Duration;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// A configuration, and what happens in it, step by step.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Plan {
    pub regions: u8,
    pub concurrency: u8,
    /// Whether one request in ten fails.
    pub fails: bool,
    pub seed: u64,
    pub limits: Vec<LimitPlan>,
    /// The calls `list0` to `list2`.
    pub lists: [ListPlan; 3],
    /// What one request of the calls `owner`, `item` and `play` costs, by limit.
    pub fetch_costs: [[u8; 3]; 3],
    pub jobs: Vec<JobPlan>,
    /// Whether the first two jobs need the same ids.
    pub twins: bool,
    pub events: Vec<Event>,
    pub extras: Extras,
}

/// What the configuration of a world has beside limits, lists and jobs.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Extras {
    /// How regions are configured: 0 as a list, 1 as a table with values, 2 in a file.
    pub regions: u8,
    /// Whether a failure of the upstream costs nothing.
    pub free: bool,
    /// Whether former bodies are kept.
    pub history: bool,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct LimitPlan {
    pub window: u8,
    pub headroom: u8,
    /// Whether each region has a quota of its own. The first limit never has, because steps with ids cannot charge such a one.
    pub scoped: bool,
    /// What is left of the quota beyond what the dearest request needs, in units.
    pub room: u16,
    pub waits: bool,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct ListPlan {
    pub paging: u8,
    pub size: u8,
    pub costs: [u8; 3],
    pub total: u8,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct JobPlan {
    pub account: u8,
    pub every: u8,
    pub resume: u8,
    pub leave: [u8; 3],
    /// What it fetches once, in which order; 0: it is no backfill.
    pub slices: u8,
    /// The value of `{since}` in its lists; 0: they do not name it.
    pub since: u8,
    /// Whether it continues with the second credential when the quota of the first is exhausted.
    pub several: bool,
    /// The call, and how many pages at most; 0 for all.
    pub lists: Vec<(u8, u8)>,
    pub fetches: Vec<FetchPlan>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct FetchPlan {
    pub what: u8,
    pub batch: u8,
    pub fresh: u8,
}

/// Something that happens.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub enum Event {
    /// Time passes.
    Wait(u8),
    /// Time passes until the charge that stopped the last run fits.
    UntilRetry,
    /// A list holds another number of records from now on.
    Chart { list: u8, total: u8 },
    /// The jobs whose bit is set run, and may be cut short.
    Run { jobs: u8, cut: Cut },
    /// Two runs of different jobs at once.
    Pair { first: u8, second: u8 },
}

/// How a run ends before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum Cut {
    /// It does not.
    No,
    /// By a signal, while this request (counted from 0) is in flight.
    Stopped(u8),
    /// Killed when this request is charged and not sent.
    KilledBefore(u8),
    /// Killed when this request is answered and nothing is landed.
    KilledAfter(u8),
}

const WINDOWS: [&str; 14] = [
    "window = \"24h\"",
    "window = \"1h\"",
    "resets = \"UTC\"",
    "window = \"24h\", resets = \"America/Los_Angeles\"",
    "window = \"6h\"",
    "window = \"15m\"",
    "resets = \"Australia/Lord_Howe\"",
    "window = \"2h\", resets = \"Europe/Berlin\"",
    "window = \"90m\"",
    "resets = \"UTC\", period = \"hour\"",
    "resets = \"America/St_Johns\", period = \"hour\"",
    "resets = \"UTC\", period = \"week\"",
    "resets = \"America/Los_Angeles\", period = \"month\"",
    "window = \"3h\", resets = \"Asia/Kolkata\", period = \"hour\"",
];
/// The windows of a world without extras.
const PLAIN_WINDOWS: u8 = 9;
/// The kinds of paging of a world without extras, and of one with them.
const PLAIN_PAGING: u8 = 5;
const ALL_PAGING: u8 = 11;
/// Backfills: the first slice, how many seconds a slice lasts, and the keys.
pub const SLICES: [(&str, i64, &str); 4] = [
    ("2026-02-25", 86_400, "step = \"1d\""),
    (
        "2026-02-19",
        3 * 86_400,
        "step = \"3d\", order = \"oldest_first\"",
    ),
    (
        "2026-02-28",
        6 * 3_600,
        "step = \"6h\", order = \"newest_first\"",
    ),
    (
        "2026-02-27T12:00:00Z",
        8 * 3_600,
        "step = \"8h\", order = \"oldest_first\", to = \"2026-03-02T12:00:00Z\"",
    ),
];
const SINCE: [&str; 4] = [
    "",
    "since = \"2026-01-01\"",
    "since = { at = \"/updated\", first = \"2026-01-01T00:00:00Z\" }",
    "since = { at = \"/updated\" }",
];
const WAITS: [Duration; 9] = [
    Duration::from_secs(60),
    Duration::from_secs(1),
    Duration::from_secs(60 * 10),
    Duration::from_secs(60 * 61),
    Duration::from_secs(60 * 60 * 3),
    Duration::from_secs(60 * 60 * 7),
    Duration::from_secs(60 * 60 * 13),
    Duration::from_secs(60 * 60 * 25),
    Duration::from_secs(60 * 60 * 24 * 4),
];
const EVERY: [&str; 4] = ["", "every = \"1h\"", "every = \"6h\"", "every = \"1d\""];
const RESUME: [&str; 3] = ["", "resume_within = \"2h\"", "resume_within = \"7d\""];
const FRESH: [&str; 4] = [
    ", fresh_for = \"7d\"",
    "",
    ", fresh_for = \"1h\"",
    ", fresh_for = \"1d\"",
];
const LISTED_KINDS: [&str; 3] = ["item", "hit", "item"];
const LIMITS: [&str; 3] = ["a", "b", "c"];
const FETCHES: [(&str, &str); 3] = [("owner", "owner"), ("item", "item"), ("play", "play")];

pub fn span(wait: u8) -> Duration {
    WAITS[usize::from(wait) % WAITS.len()]
}

/// Worlds with lists, ids and limits only.
pub fn plans() -> impl Strategy<Value = Plan> {
    worlds(Just(Extras::default()).boxed(), PLAIN_WINDOWS, PLAIN_PAGING)
}

/// Worlds with backfills, lists of what is new, several credentials, limits of regions and further kinds of paging too.
pub fn rich_plans() -> impl Strategy<Value = Plan> {
    let extras = (0_u8..3, any::<bool>(), any::<bool>());
    let extras = extras.prop_map(|(regions, free, history)| Extras {
        regions,
        free,
        history,
    });
    let windows = u8::try_from(WINDOWS.len()).unwrap();
    let more = prop::collection::vec((0_u8..8, 0_u8..7, prop::bool::weighted(0.3)), 5);
    let scoped = prop::array::uniform3(prop::bool::weighted(0.5));
    (worlds(extras.boxed(), windows, ALL_PAGING), more, scoped)
        .prop_map(|(plan, more, scoped)| plan.enriched(&more, scoped))
}

fn worlds(extras: BoxedStrategy<Extras>, windows: u8, paging: u8) -> impl Strategy<Value = Plan> {
    let shape = (1_u8..=5, 1_u8..=5, prop::bool::weighted(0.15), any::<u64>());
    let limits = prop::collection::vec(limit(windows), 1..=3);
    let lists = [list(paging), list(paging), list(paging)];
    let costs = || [0_u8..=3, 0_u8..=3, 0_u8..=3];
    let jobs = prop::collection::vec(job(), 1..=4);
    let events = prop::collection::vec(event(), 2..=9);
    let twins = prop::option::weighted(0.3, fetch());
    (
        shape,
        limits,
        lists,
        [costs(), costs(), costs()],
        jobs,
        events,
        (twins, extras),
    )
        .prop_map(
            |(shape, limits, lists, fetch_costs, jobs, events, (twins, extras))| {
                let (regions, concurrency, fails, seed) = shape;
                let plan = Plan {
                    regions,
                    concurrency,
                    fails,
                    seed,
                    limits,
                    lists,
                    fetch_costs,
                    jobs,
                    twins: false,
                    events,
                    extras,
                };
                match twins {
                    Some(fetch) => plan.with_twins(fetch),
                    None => plan,
                }
            },
        )
}

fn limit(windows: u8) -> impl Strategy<Value = LimitPlan> {
    let room = prop_oneof![3 => 0_u16..=25, 2 => 25_u16..=400];
    (0..windows, 0_u8..=3, room, prop::bool::weighted(0.2)).prop_map(
        |(window, headroom, room, waits)| LimitPlan {
            window,
            headroom,
            scoped: false,
            room,
            waits,
        },
    )
}

fn list(paging: u8) -> impl Strategy<Value = ListPlan> {
    let costs = [0_u8..=5, 0_u8..=5, 0_u8..=5];
    (0..paging, 1_u8..=6, costs, 0_u8..=24).prop_map(|(paging, size, costs, total)| ListPlan {
        paging,
        size,
        costs,
        total,
    })
}

fn job() -> impl Strategy<Value = JobPlan> {
    let lists = prop::collection::vec((0_u8..3, 0_u8..=4), 1..=2);
    let fetches = prop::collection::vec(fetch(), 0..=2);
    let leave = [0_u8..=4, 0_u8..=4, 0_u8..=4];
    (
        0_u8..4,
        0_u8..4,
        0_u8..3,
        prop_oneof![2 => Just([0, 0, 0]), 1 => leave],
        lists,
        fetches,
    )
        .prop_map(|(account, every, resume, leave, lists, fetches)| JobPlan {
            account,
            every,
            resume,
            leave,
            slices: 0,
            since: 0,
            several: false,
            lists,
            fetches,
        })
}

fn fetch() -> impl Strategy<Value = FetchPlan> {
    (0_u8..3, 1_u8..=7, 0_u8..4).prop_map(|(what, batch, fresh)| FetchPlan { what, batch, fresh })
}

fn event() -> impl Strategy<Value = Event> {
    let cut = prop_oneof![
        6 => Just(Cut::No),
        1 => (0_u8..12).prop_map(Cut::Stopped),
        1 => (0_u8..12).prop_map(Cut::KilledBefore),
        1 => (0_u8..12).prop_map(Cut::KilledAfter),
    ];
    prop_oneof![
        6 => (1_u8..16, cut).prop_map(|(jobs, cut)| Event::Run { jobs, cut }),
        4 => (0_u8..9).prop_map(Event::Wait),
        1 => Just(Event::UntilRetry),
        2 => (0_u8..3, 0_u8..=24).prop_map(|(list, total)| Event::Chart { list, total }),
        1 => (1_u8..16, 1_u8..16).prop_map(|(first, second)| Event::Pair { first, second }),
    ]
}

impl LimitPlan {
    /// Every second sliding limit counts in parts. By what is drawn anyway, so that a seed keeps its world.
    fn counting(&self) -> &'static str {
        let slides = !WINDOWS[usize::from(self.window)].contains("resets");
        match slides && self.room % 2 == 1 {
            true => ", counting = \"buckets\", buckets = 12",
            false => "",
        }
    }
}

impl Plan {
    /// The same world in which the first thing that happens is that two jobs which need the same ids run at the same time.
    /// Their limits are high enough that neither of them stops, so that only the claim of ids keeps an id from being
    /// requested twice.
    fn with_twins(mut self, fetch: FetchPlan) -> Self {
        for limit in &mut self.limits {
            limit.room += 1_000;
        }
        if let Some(first) = self.jobs.first_mut() {
            first.fetches = vec![fetch];
            first.leave = [0; 3];
            for (list, _) in &first.lists {
                let list = &mut self.lists[usize::from(*list)];
                list.total = list.total.max(12);
            }
            let twin = first.clone();
            self.jobs.insert(1, twin);
        }
        self.twins = true;
        let (first, second) = (0b01, 0b10);
        self.events.insert(0, Event::Pair { first, second });
        self
    }

    /// The same world with backfills, lists of what is new, several credentials and limits of regions. Jobs that need the same
    /// ids stay as they are.
    fn enriched(mut self, more: &[(u8, u8, bool)], scoped: [bool; 3]) -> Self {
        let twins = if self.twins { 2 } else { 0 };
        for (job, (slices, since, several)) in self.jobs.iter_mut().zip(more).skip(twins) {
            job.slices = slices.saturating_sub(3);
            if job.slices == 0 {
                job.since = since.saturating_sub(3);
            }
            job.several = *several;
        }
        for (limit, scoped) in self.limits.iter_mut().zip(scoped).skip(1) {
            limit.scoped = scoped;
        }
        self
    }

    /// Whether a job has several credentials: then a pass can use several accounts, and no report says how much of each.
    pub fn has_several(&self) -> bool {
        self.jobs.iter().any(|job| job.several)
    }

    /// Whether two jobs, or two steps of one, request the same list.
    pub fn shares_lists(&self) -> bool {
        let jobs = self.jobs.iter();
        let keys = jobs.flat_map(|job| {
            let place = (job.slices, job.since);
            let steps = job.lists.iter().enumerate();
            steps.map(move |(part, (call, _))| (place, part, *call))
        });
        let keys: Vec<_> = keys.collect();
        keys.iter()
            .enumerate()
            .any(|(at, key)| keys[..at].contains(key))
    }

    /// The slices of a job that are over, in seconds since 1970: each one's start.
    pub fn slices_over(&self, job: usize, now: i64) -> Vec<i64> {
        let Some((from, seconds, keys)) = self.jobs[job]
            .slices
            .checked_sub(1)
            .map(|at| SLICES[usize::from(at)])
        else {
            return Vec::new();
        };
        let time = |text: &str| {
            let text = if text.contains('T') {
                text.to_owned()
            } else {
                format!("{text}T00:00:00Z")
            };
            text.parse::<chrono::DateTime<chrono::Utc>>()
                .unwrap()
                .timestamp()
        };
        let end = if keys.contains("to =") {
            time("2026-03-02T12:00:00Z")
        } else {
            i64::MAX
        };
        let starts = (0..).map(|number| time(from) + number * seconds);
        starts
            .take_while(|start| start + seconds <= now.min(end))
            .collect()
    }

    /// Whether no time passes while a single run works: then a request arrives at the very time of its charge.
    pub fn stands_still(&self) -> bool {
        !self.fails && self.limits.iter().all(|limit| !limit.waits)
    }

    /// Its configuration, without the address of the upstream.
    pub fn config(&self) -> String {
        let mut text = String::new();
        let codes: Vec<String> = (0..self.regions)
            .map(|code| format!("\"R{code}\""))
            .collect();
        match self.extras.regions {
            2 => text.push_str("regions = { file = \"regions.csv\" }\n"),
            1 => {}
            _ => drop(writeln!(text, "regions = [{}]", codes.join(", "))),
        }
        text.push_str(
            "[upstreams.api]\nbase_url = \"http://127.0.0.1:9\"\nauth = { bearer = true }\npause = \"1ms\"\n",
        );
        if self.extras.free {
            text.push_str("errors = [{ status = \"5xx\", class = \"transient\", free = true }]\n");
        }
        let history = if self.extras.history {
            ", history = true"
        } else {
            ""
        };
        for (index, list) in self.lists.iter().enumerate() {
            let _ = writeln!(
                text,
                "[upstreams.api.calls.list{index}]\npath = \"list{index}\"\ncost = {}\ntrust = [\"cut\"]\n{}\nrecords = {{ at = \"/items\", kind = \"{}\", id = \"/id\", columns = {{ owner = \"/owner\" }}{history} }}",
                self.cost(&list.costs, true),
                list.page(),
                LISTED_KINDS[index],
            );
        }
        for (costs, (call, kind)) in self.fetch_costs.iter().zip(FETCHES) {
            let _ = writeln!(
                text,
                "[upstreams.api.calls.{call}]\npath = \"{call}\"\ncost = {}\nrecords = {{ at = \"/items\", kind = \"{kind}\", id = \"/id\" }}",
                self.cost(costs, false),
            );
        }
        for account in ["first", "second"] {
            let _ = writeln!(
                text,
                "[credentials.{account}]\nupstream = \"api\"\nsecret = {{ env = \"YOUTUBE_API_KEY\" }}\n[credentials.{account}.limits]"
            );
            for (index, limit) in self.limits.iter().enumerate() {
                let quota = u16::from(self.dearest(index)) + u16::from(limit.headroom) + limit.room;
                let _ = writeln!(
                    text,
                    "{} = {{ quota = {quota}, headroom = {}, {}{}{}, wait = \"{}\" }}",
                    LIMITS[index],
                    limit.headroom,
                    WINDOWS[usize::from(limit.window)],
                    limit.counting(),
                    if limit.scoped { self.scope() } else { "" },
                    if limit.waits { "20m" } else { "0s" },
                );
            }
        }
        for (index, job) in self.jobs.iter().enumerate() {
            self.write_job(&mut text, index, job);
        }
        if self.extras.regions == 1 {
            for (code, place) in self.places() {
                let _ = writeln!(text, "[regions.{code}]\nplace = \"{place}\"");
            }
        }
        text
    }

    /// Each region with its value `place`. Two regions can be in one place.
    fn places(&self) -> impl Iterator<Item = (String, String)> {
        (0..self.regions).map(|code| (format!("R{code}"), format!("p{}", code / 2)))
    }

    /// The file with the regions.
    pub fn regions_file(&self) -> String {
        let rows = self
            .places()
            .map(|(code, place)| format!("{code},{place}\n"));
        format!("code,place\n{}", rows.collect::<String>())
    }

    /// What a limit with a scope is a limit of.
    fn scope(&self) -> &'static str {
        match self.extras.regions {
            0 => ", scope = \"{region}\"",
            _ => ", scope = \"{place}\"",
        }
    }

    /// The name in the ledger of a limit, for a request for a region.
    pub fn in_ledger(&self, limit: &str, region: &str) -> String {
        let index = LIMITS.iter().position(|name| *name == limit).unwrap();
        match (self.limits[index].scoped, self.extras.regions) {
            (false, _) => limit.to_owned(),
            (true, 0) => format!("{limit}/{region}"),
            (true, _) => {
                let place = self.places().find(|(code, _)| code == region);
                format!("{limit}/{}", place.unwrap().1)
            }
        }
    }

    /// The most that one request takes of a limit, with what its job must leave; at least 1.
    fn dearest(&self, limit: usize) -> u8 {
        let lists = self.lists.iter().map(|list| list.costs[limit]);
        let fetches = self.fetch_costs.iter().map(|costs| costs[limit]);
        let leave = self.jobs.iter().map(|job| job.leave[limit]).max();
        lists.chain(fetches).max().unwrap_or(0).max(1) + leave.unwrap_or(0)
    }

    /// At least one unit of the first limit, where nothing else is charged. Only lists charge a limit with a scope.
    fn cost(&self, costs: &[u8; 3], is_list: bool) -> String {
        let mut parts: Vec<String> = (0..self.limits.len())
            .filter(|limit| costs[*limit] > 0 && (is_list || !self.limits[*limit].scoped))
            .map(|limit| format!("{} = {}", LIMITS[limit], costs[limit]))
            .collect();
        if parts.is_empty() {
            parts.push("a = 1".to_owned());
        }
        format!("{{ {} }}", parts.join(", "))
    }

    fn write_job(&self, text: &mut String, index: usize, job: &JobPlan) {
        let account = if job.account == 3 { "second" } else { "first" };
        let leave: Vec<String> = (0..self.limits.len())
            .filter(|limit| job.leave[*limit] > 0)
            .map(|limit| format!("{} = {}", LIMITS[limit], job.leave[limit]))
            .collect();
        let slices = job.slices.checked_sub(1).map(|at| SLICES[usize::from(at)]);
        let slices =
            slices.map(|(from, _, keys)| format!("slices = {{ from = \"{from}\", {keys} }}"));
        let slices = slices.unwrap_or_default();
        let _ = writeln!(
            text,
            "[jobs.job{index}]\n{}\n{}\n{}\n{}\n{}\n{}",
            match job.several {
                true => "credentials = [\"first\", \"second\"]".to_owned(),
                false => format!("credential = \"{account}\""),
            },
            match job.slices > 0 && leave.is_empty() {
                true => String::new(),
                false => format!("leave = {{ {} }}", leave.join(", ")),
            },
            SINCE[usize::from(job.since)],
            slices,
            EVERY[usize::from(job.every)],
            RESUME[usize::from(job.resume)],
        );
        for (number, (call, most)) in job.lists.iter().enumerate() {
            let most = if *most > 0 {
                format!("max_pages = {most}")
            } else {
                String::new()
            };
            let since = if job.since > 0 {
                ", since = \"{since}\""
            } else {
                ""
            };
            let slice = match job.slices {
                0 => "",
                _ => ", span_from = \"{slice.from}\", span_to = \"{slice.to:%s}\"",
            };
            let _ = writeln!(
                text,
                "[[jobs.job{index}.steps]]\ncall = \"list{call}\"\nparams = {{ region = \"{{region}}\", part = \"{number}\"{since}{slice} }}\n{most}"
            );
        }
        let mut source = (format!("list{}", job.lists[0].0), "/owner");
        for fetch in &job.fetches {
            let (call, _) = FETCHES[usize::from(fetch.what)];
            let (from, at) = &source;
            let _ = writeln!(
                text,
                "[[jobs.job{index}.steps]]\ncall = \"{call}\"\nparams = {{ id = \"{{ids}}\" }}\nids = {{ from = \"{from}\", at = \"{at}\", batch = {}{} }}",
                fetch.batch,
                FRESH[usize::from(fetch.fresh)],
            );
            source = (call.to_owned(), "/id");
        }
    }
}

impl ListPlan {
    fn page(&self) -> String {
        let size = self.size;
        match self.paging {
            0 => format!(
                "page = {{ kind = \"token\", param = \"token\", next = \"/next\", size_param = \"size\", size = {size} }}"
            ),
            1 => format!(
                "page = {{ kind = \"number\", param = \"page\", size_param = \"size\", size = {size} }}"
            ),
            2 => format!(
                "page = {{ kind = \"offset\", param = \"from\", size_param = \"size\", size = {size} }}"
            ),
            3 => format!("page = {{ kind = \"link\", size_param = \"size\", size = {size} }}"),
            4 => String::new(),
            5 => format!(
                "page = {{ kind = \"token\", param = \"token\", next = \"/meta/next\", more = \"/meta/more\", size_param = \"size\", size = {size} }}"
            ),
            6 => format!(
                "page = {{ kind = \"token\", param = \"after\", last = \"/id\", size_param = \"size\", size = {size} }}"
            ),
            7 => format!(
                "page = {{ kind = \"number\", param = \"page\", first = 0, done = \"/is_last\", size_param = \"size\", size = {size} }}"
            ),
            8 => format!(
                "page = {{ kind = \"next_url\", next = \"/links/next\", done = \"/is_last\", size_param = \"size\", size = {size} }}"
            ),
            9 => format!(
                "page = {{ kind = \"token\", param = \"cursor\", first = \"*\", next_header = \"x-next\", size_param = \"size\", size = {size} }}"
            ),
            _ => format!(
                "page = {{ kind = \"offset\", param = \"start\", first = 1, total = \"/total\", size_param = \"size\", size = {size} }}"
            ),
        }
    }
}
