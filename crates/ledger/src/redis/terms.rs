//! The arguments of the scripts; `lua/terms.lua` lists them in their order.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use rmp::encode;

use crate::{Charge, Seen, Update};
use ingest_quota::{
    Account, Calendar, ChargeId, Cost, Counting, Entry, Floor, Limit, LimitName, Timestamp, Units,
    Window,
};

/// The largest number that the scripts take: they calculate in doubles.
const LARGEST: u64 = Units::MOST_COUNTED.get();
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The most limits of an account that are sent all. Of more, those are sent that a script needs.
const MOST_SENT: usize = 64;

/// The most limits of such an account whose totals one script compares with the log.
const MOST_CHECKED: usize = 16;

/// The first arguments of every script.
pub struct Terms<'a> {
    pub account: &'a Account,
    /// The account, with the limits that are sent.
    pub sent: &'a Account,
    pub now: Timestamp,
    pub max_skew: Option<Duration>,
    /// How long the keys live at least.
    pub least_life: Duration,
    pub server_time: Option<Timestamp>,
    pub seen: Option<&'a Seen>,
    pub fresh_epoch: String,
    /// What `charge.lua` is to charge; `None` for every other script.
    pub charge: Option<Charge<'a>>,
    /// How far ahead of `now` the scripts need the periods of calendar limits.
    pub ahead: Duration,
}

impl Terms<'_> {
    /// One argument for the caller, one for each limit.
    pub fn arguments(&self) -> Vec<Vec<u8>> {
        let mut arguments = vec![self.terms()];
        let mut windows: Vec<(&Window, u64)> = Vec::new();
        for (number, (name, limit)) in (1..).zip(&self.sent.limits) {
            let window = limit.window();
            // The limits of thousands of values have one window, whose periods are sent once.
            let like = windows.iter().find(|(sent, _)| *sent == window);
            let like = like.map(|(_, number)| *number);
            if like.is_none() {
                windows.push((window, number));
            }
            arguments.push(self.terms_of(name, limit, like));
        }
        arguments
    }

    fn terms(&self) -> Vec<u8> {
        let mut packed = Packed::default();
        packed.number(self.now.micros().unsigned_abs());
        packed.optional(self.max_skew.map(micros));
        packed.optional(self.server_time.map(|at| at.micros().unsigned_abs()));
        match self.seen {
            None => packed.word("-").number(0).word(""),
            Some(seen) => packed.word(&seen.epoch).number(seen.sequence).word(
                seen.newest
                    .as_ref()
                    .map(ChargeId::as_str)
                    .unwrap_or_default(),
            ),
        };
        packed
            .word(&self.fresh_epoch)
            .number(micros(self.account.longest_window()))
            .number(micros(sliding_memory(self.account)))
            .times(&forgets(self.account, self.now, self.max_skew))
            .truth(self.account.forgets_ids())
            .number(micros(self.least_life))
            .number(self.sent.limits.len() as u64);
        if let Some(charge) = &self.charge {
            packed.word(charge.id.as_str());
        }
        packed.0
    }

    /// `like` is the number of an earlier limit with the same window.
    fn terms_of(&self, name: &LimitName, limit: &Limit, like: Option<u64>) -> Vec<u8> {
        let window = limit.window();
        let mut packed = Packed::default();
        packed.word(name).number(calculable(limit.enforced()));
        packed.optional(window.sliding().map(micros));
        packed
            .number(micros(window.grace()))
            .optional(window.parts().map(|parts| micros(parts.length())))
            .word(&rule(limit));
        match like {
            Some(number) => packed.number(number),
            None => packed.times(&periods(window, self.now, self.ahead, self.max_skew)),
        };
        if let Some(charge) = &self.charge {
            let [taken, left] = [charge.cost, charge.leave].map(|units| units.of(name));
            packed.number(calculable(taken)).number(calculable(left));
        }
        packed.0
    }
}

/// Values one after another in MessagePack, which the scripts read many times faster than text.
#[derive(Default)]
struct Packed(Vec<u8>);

/// Writing to memory does not fail.
impl Packed {
    fn number(&mut self, number: u64) -> &mut Self {
        let _ = encode::write_uint(&mut self.0, number);
        self
    }

    /// A number; `false` for `None`, since a `nil` at the end of a list is no value in Lua.
    fn optional(&mut self, number: Option<u64>) -> &mut Self {
        match number {
            Some(number) => self.number(number),
            None => self.truth(false),
        }
    }

    fn truth(&mut self, truth: bool) -> &mut Self {
        let _ = encode::write_bool(&mut self.0, truth);
        self
    }

    fn word(&mut self, word: &str) -> &mut Self {
        let _ = encode::write_str(&mut self.0, word);
        self
    }

    fn times(&mut self, times: &[Timestamp]) -> &mut Self {
        let _ =
            encode::write_array_len(&mut self.0, u32::try_from(times.len()).unwrap_or(u32::MAX));
        for time in times {
            self.number(time.micros().unsigned_abs());
        }
        self
    }
}

/// The quota of a limit that this configuration does not know.
const UNKNOWN: Units = Units::new(u64::MAX);

/// The account, with the limits too that an update names and that this configuration does not know: another one on this
/// machine charged them. They are in the state without a rule; a machine that has the rule sums them from the log. Their
/// window is one that the account has: another would change how long charges and their ids are kept.
pub fn with_unknown_limits<'a>(account: &'a Account, update: &Update<'_>) -> Cow<'a, Account> {
    let unknown = costs(update)
        .into_iter()
        .flat_map(Cost::limits)
        .filter(|name| !account.limits.contains_key(*name));
    let limit = account
        .longest_limit()
        .and_then(|longest| Limit::new(UNKNOWN, Units::ZERO, *longest.window()).ok());
    // An account without a limit has no window to count them by.
    let Some(limit) = limit else {
        return Cow::Borrowed(account);
    };
    let mut known = Cow::Borrowed(account);
    for name in unknown {
        known.to_mut().limits.insert(name.clone(), limit);
    }
    known
}

fn costs<'a>(update: &Update<'a>) -> Vec<&'a Cost> {
    match update {
        Update::Absorb(entries) | Update::Recover(entries, _) => {
            entries.iter().map(|entry| &entry.cost).collect()
        }
        Update::Settle { cost, .. } => vec![cost],
        Update::Close { .. } | Update::Reopen { .. } => Vec::new(),
    }
}

/// The account with the limits that a charge needs: those that it takes from. Where ids are forgotten, charges are merged by
/// every window that the account has.
pub fn for_charge<'a>(account: &'a Account, cost: &Cost) -> Cow<'a, Account> {
    let mut names: BTreeSet<&LimitName> = cost.limits().collect();
    if account.limits.len() > MOST_SENT && account.forgets_ids() {
        names.extend(account.windows().into_iter().map(|(name, _)| name));
    }
    with_limits(account, names)
}

/// The account with the limits that an update names.
pub fn for_update<'a>(account: &'a Account, update: &Update<'_>) -> Cow<'a, Account> {
    let floors = match update {
        Update::Recover(_, floors) => floors,
        Update::Absorb(_)
        | Update::Settle { .. }
        | Update::Close { .. }
        | Update::Reopen { .. } => &[][..],
    };
    let named = match update {
        Update::Close { limit, .. } | Update::Reopen { limit } => Some(*limit),
        Update::Absorb(_) | Update::Recover(..) | Update::Settle { .. } => None,
    };
    let charged = costs(update).into_iter().flat_map(Cost::limits);
    let floors = floors.iter().map(|floor| &floor.limit);
    let names = charged.chain(floors).map(String::as_str).chain(named);
    with_limits(account, names)
}

/// The account in parts, each with as many limits as one script compares with the log.
pub fn parts(account: &Account) -> Vec<Cow<'_, Account>> {
    if account.limits.len() <= MOST_SENT {
        return vec![Cow::Borrowed(account)];
    }
    let names: Vec<&LimitName> = account.limits.keys().collect();
    let parts = names.chunks(MOST_CHECKED);
    parts.map(|part| with_limits(account, part)).collect()
}

/// The account with these of its limits, where it has too many to send all.
pub fn with_limits<'a, N: AsRef<str>>(
    account: &'a Account,
    names: impl IntoIterator<Item = N>,
) -> Cow<'a, Account> {
    if account.limits.len() <= MOST_SENT {
        return Cow::Borrowed(account);
    }
    let limits = names
        .into_iter()
        .filter_map(|name| account.limits.get_key_value(name.as_ref()))
        .map(|(name, limit)| (name.clone(), *limit));
    Cow::Owned(Account {
        name: account.name.clone(),
        limits: limits.collect(),
    })
}

/// A limit in words, so that configurations that differ can be reported.
fn rule(limit: &Limit) -> String {
    if limit.quota() == UNKNOWN {
        return String::new();
    }
    let window = limit.window();
    let slides = window
        .sliding()
        .map(|span| format!(" in {}", humantime::format_duration(span)));
    let resets = window
        .resets()
        .map(|calendar| format!(" a {} of {}", calendar.period(), calendar.zone()));
    let parts = match window.counting() {
        Counting::Exact => String::new(),
        Counting::Buckets(parts) => format!(" in {parts} parts"),
    };
    format!(
        "{} less {}{}{}{parts}",
        limit.quota(),
        limit.headroom(),
        slides.unwrap_or_default(),
        resets.unwrap_or_default()
    )
}

/// The beginnings of calendar periods: from three before `now` to three after `ahead`. The ledger's clock can differ, by as much
/// as `max_skew` where a script compares them; otherwise by days, since it stays at the newest charge when its server's clock
/// is set back.
fn periods(
    window: &Window,
    now: Timestamp,
    ahead: Duration,
    max_skew: Option<Duration>,
) -> Vec<Timestamp> {
    let Some(calendar) = window.resets() else {
        return Vec::new();
    };
    let periods = 3 * calendar.usual_length();
    let longest = periods.max(3 * DAY);
    let margin = max_skew.map_or(longest, |skew| periods.saturating_add(skew).min(longest));
    let end = now + ahead.saturating_add(margin);
    resets(calendar, now - margin, end)
}

/// The beginnings of the period that contains `from` and of all that follow, up to the first at `end` or later.
fn resets(calendar: Calendar, from: Timestamp, end: Timestamp) -> Vec<Timestamp> {
    std::iter::successors(Some(calendar.last_reset(from)), |start| {
        let next = calendar.next_reset(*start);
        (next > *start && *start < end).then_some(next)
    })
    .collect()
}

/// How long windows that slide remember ids (L11).
fn sliding_memory(account: &Account) -> Duration {
    let memory = |limit: &Limit| match (limit.window().parts(), limit.window().sliding()) {
        (Some(_), _) => limit.memory_of_parts(),
        (None, Some(span)) => span + limit.grace(),
        (None, None) => Duration::ZERO,
    };
    let memory = account.of_each_window().map(memory).max();
    memory.unwrap_or_default()
}

/// When calendars forget ids (L11): instants, and behind each the first charge that is remembered from then on. As far around
/// `now` as the ledger's clock can differ.
fn forgets(account: &Account, now: Timestamp, max_skew: Option<Duration>) -> Vec<Timestamp> {
    let calendars: Vec<&Window> = account
        .of_each_window()
        .map(Limit::window)
        .filter(|window| window.resets().is_some())
        .collect();
    let mut instants: Vec<Timestamp> = Vec::new();
    for window in &calendars {
        let resets = window.resets().into_iter().flat_map(|calendar| {
            let longest = (3 * calendar.usual_length()).max(3 * DAY);
            let margin = max_skew.unwrap_or(longest).saturating_add(window.grace());
            resets(calendar, now - margin, now + margin)
        });
        instants.extend(resets.map(|reset| reset + window.grace()));
    }
    instants.sort_unstable();
    instants.dedup();
    let counted = |at: Timestamp| {
        let reset = |window: &&Window| {
            let grace = window.grace();
            Some(window.last_reset(at - grace)? - grace)
        };
        calendars.iter().filter_map(reset).min()
    };
    let forgets = instants
        .into_iter()
        .filter_map(|at| Some([at, counted(at)?]));
    forgets.flatten().collect()
}

/// The components of costs, by the numbers of the limits that are sent.
pub struct Components<'a>(HashMap<&'a str, usize>);

impl<'a> Components<'a> {
    pub fn new(sent: &'a Account) -> Self {
        let names = sent.limits.keys().map(String::as_str);
        Self(names.zip(1..).collect())
    }

    /// Writes how many components a cost has, and of each the number of the limit and the units.
    pub fn write(&self, cost: &Cost, arguments: &mut Vec<String>) {
        let number =
            |(name, taken): (&LimitName, Units)| Some((*self.0.get(name.as_str())?, taken));
        let components: Vec<(usize, Units)> = cost.iter().filter_map(number).collect();
        arguments.push(components.len().to_string());
        for (number, taken) in components {
            arguments.extend([number.to_string(), units(taken)]);
        }
    }
}

pub fn entries(sent: &Account, entries: &[Entry]) -> Vec<String> {
    let mut arguments = vec![entries.len().to_string()];
    let components = Components::new(sent);
    for entry in entries {
        arguments.push(entry.id.as_str().to_owned());
        arguments.push(entry.at.micros().to_string());
        components.write(&entry.cost, &mut arguments);
    }
    arguments
}

pub fn floors(floors: &[Floor]) -> Vec<String> {
    let mut arguments = vec![floors.len().to_string()];
    for floor in floors {
        arguments.extend([
            floor.limit.clone(),
            floor.at.micros().to_string(),
            units(floor.used),
        ]);
    }
    arguments
}

pub fn units(units: Units) -> String {
    calculable(units).to_string()
}

/// The units, at most what the scripts can calculate with.
fn calculable(units: Units) -> u64 {
    units.counted().get()
}

/// Microseconds, at most what the scripts can calculate with.
fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros())
        .unwrap_or(u64::MAX)
        .min(LARGEST)
}
