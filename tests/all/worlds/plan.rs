//! What a random world is: a configuration, and what happens in it. Everything is a small number, so that proptest can shrink
//! it; every plan makes a configuration that is accepted.

use std::fmt::Write;
use std::time::Duration;

use proptest::prelude::*;

/// A configuration, and what happens in it, step by step.
#[derive(Debug, Clone)]
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
}

#[derive(Debug, Clone)]
pub struct LimitPlan {
    pub window: u8,
    pub headroom: u8,
    /// What is left of the quota beyond what the dearest request needs, in units.
    pub room: u16,
    pub waits: bool,
}

#[derive(Debug, Clone)]
pub struct ListPlan {
    pub paging: u8,
    pub size: u8,
    pub costs: [u8; 3],
    pub total: u8,
}

#[derive(Debug, Clone)]
pub struct JobPlan {
    pub account: u8,
    pub every: u8,
    pub resume: u8,
    pub leave: [u8; 3],
    /// The call, and how many pages at most; 0 for all.
    pub lists: Vec<(u8, u8)>,
    pub fetches: Vec<FetchPlan>,
}

#[derive(Debug, Clone)]
pub struct FetchPlan {
    pub what: u8,
    pub batch: u8,
    pub fresh: u8,
}

/// Something that happens.
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

const WINDOWS: [&str; 9] = [
    "window = \"24h\"",
    "window = \"1h\"",
    "resets = \"UTC\"",
    "window = \"24h\", resets = \"America/Los_Angeles\"",
    "window = \"6h\"",
    "window = \"15m\"",
    "resets = \"Australia/Lord_Howe\"",
    "window = \"2h\", resets = \"Europe/Berlin\"",
    "window = \"90m\"",
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

pub fn plans() -> impl Strategy<Value = Plan> {
    let shape = (1_u8..=5, 1_u8..=5, prop::bool::weighted(0.15), any::<u64>());
    let limits = prop::collection::vec(limit(), 1..=3);
    let lists = [list(), list(), list()];
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
        twins,
    )
        .prop_map(|(shape, limits, lists, fetch_costs, jobs, events, twins)| {
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
            };
            match twins {
                Some(fetch) => plan.with_twins(fetch),
                None => plan,
            }
        })
}

fn limit() -> impl Strategy<Value = LimitPlan> {
    let room = prop_oneof![3 => 0_u16..=25, 2 => 25_u16..=400];
    (0_u8..9, 0_u8..=3, room, prop::bool::weighted(0.2)).prop_map(
        |(window, headroom, room, waits)| LimitPlan {
            window,
            headroom,
            room,
            waits,
        },
    )
}

fn list() -> impl Strategy<Value = ListPlan> {
    let costs = [0_u8..=5, 0_u8..=5, 0_u8..=5];
    (0_u8..5, 1_u8..=6, costs, 0_u8..=24).prop_map(|(paging, size, costs, total)| ListPlan {
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
        let _ = writeln!(text, "regions = [{}]", codes.join(", "));
        text.push_str(
            "[upstreams.api]\nbase_url = \"http://127.0.0.1:9\"\nauth = { bearer = true }\npause = \"1ms\"\n",
        );
        for (index, list) in self.lists.iter().enumerate() {
            let _ = writeln!(
                text,
                "[upstreams.api.calls.list{index}]\npath = \"list{index}\"\ncost = {}\n{}\nrecords = {{ at = \"/items\", kind = \"{}\", id = \"/id\", columns = {{ owner = \"/owner\" }} }}",
                self.cost(&list.costs),
                list.page(),
                LISTED_KINDS[index],
            );
        }
        for (costs, (call, kind)) in self.fetch_costs.iter().zip(FETCHES) {
            let _ = writeln!(
                text,
                "[upstreams.api.calls.{call}]\npath = \"{call}\"\ncost = {}\nrecords = {{ at = \"/items\", kind = \"{kind}\", id = \"/id\" }}",
                self.cost(costs),
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
                    "{} = {{ quota = {quota}, headroom = {}, {}{}, wait = \"{}\" }}",
                    LIMITS[index],
                    limit.headroom,
                    WINDOWS[usize::from(limit.window)],
                    limit.counting(),
                    if limit.waits { "20m" } else { "0s" },
                );
            }
        }
        for (index, job) in self.jobs.iter().enumerate() {
            self.write_job(&mut text, index, job);
        }
        text
    }

    /// The most that one request takes of a limit, with what its job must leave; at least 1.
    fn dearest(&self, limit: usize) -> u8 {
        let lists = self.lists.iter().map(|list| list.costs[limit]);
        let fetches = self.fetch_costs.iter().map(|costs| costs[limit]);
        let leave = self.jobs.iter().map(|job| job.leave[limit]).max();
        lists.chain(fetches).max().unwrap_or(0).max(1) + leave.unwrap_or(0)
    }

    /// At least one unit of the first limit, where nothing else is charged.
    fn cost(&self, costs: &[u8; 3]) -> String {
        let mut parts: Vec<String> = (0..self.limits.len())
            .filter(|limit| costs[*limit] > 0)
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
        let _ = writeln!(
            text,
            "[jobs.job{index}]\ncredential = \"{account}\"\nleave = {{ {} }}\n{}\n{}",
            leave.join(", "),
            EVERY[usize::from(job.every)],
            RESUME[usize::from(job.resume)],
        );
        for (number, (call, most)) in job.lists.iter().enumerate() {
            let most = if *most > 0 {
                format!("max_pages = {most}")
            } else {
                String::new()
            };
            let _ = writeln!(
                text,
                "[[jobs.job{index}.steps]]\ncall = \"list{call}\"\nparams = {{ region = \"{{region}}\", part = \"{number}\" }}\n{most}"
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
            _ => String::new(),
        }
    }
}
