//! The calls of the operations; the files of `lua/` list their arguments in their order.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;
use rmpv::Value;

use super::library::Operation;
use super::packed::packed;
use crate::{Charge, Seen, fresh_id};
use ingest_base::clock::Clock;
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Counting, Entry, Floor, Limit, LimitName, Timestamp, Units,
    Window,
};

/// The largest number that Lua takes: it calculates in doubles.
const LARGEST: u64 = Units::MOST_COUNTED.get();
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The clock that the ledger goes by.
#[derive(Clone)]
pub enum ServerTime {
    /// Redis' own.
    Own,
    /// The caller's `now`, for tests that move time by hand.
    Callers,
    /// Another clock, for tests in which the server's is wrong.
    Told(Arc<dyn Clock>),
}

/// The rules of a ledger that its calls name.
#[derive(Clone)]
pub struct Rules {
    /// What its keys begin with.
    pub prefix: &'static str,
    /// How far its clock may be from the caller's (L5); `None`: any distance.
    pub max_skew: Option<Duration>,
    /// How long its keys live at least.
    pub least_life: Duration,
    pub time: ServerTime,
}

/// One call of an operation.
pub struct Call {
    pub operation: Operation,
    pub keys: [String; 3],
    pub arguments: Vec<Vec<u8>>,
    /// The number of limits that it reads or writes.
    pub limits: usize,
}

/// Who calls, and on which terms: the first argument of every operation.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    pub rules: &'a Rules,
    pub account: &'a Account,
    /// What this machine has seen of the ledger.
    pub seen: Option<&'a Seen>,
    /// This machine's clock.
    pub now: Timestamp,
    /// The id that is charged or settled.
    pub id: Option<&'a ChargeId>,
    /// Up to when charges under the id are none that a charge repeats.
    pub forgotten: Timestamp,
}

impl<'a> Terms<'a> {
    pub const fn new(
        rules: &'a Rules,
        account: &'a Account,
        seen: Option<&'a Seen>,
        now: Timestamp,
    ) -> Self {
        Self {
            rules,
            account,
            seen,
            now,
            id: None,
            forgotten: Timestamp::from_micros(0),
        }
    }

    /// Charges each limit.
    pub fn charge(&self, charge: Charge<'_>) -> Call {
        let charged = charge.account.charged(charge.cost);
        let mut call = self.call(Operation::Charge, charged.map(|(name, _)| name));
        for (name, limit) in charge.account.charged(charge.cost) {
            let most = limit.enforced().saturating_sub(charge.leave.of(name));
            let taken = [units(charge.cost.of(name)), units(most), rule(limit).into()];
            call.add(taken.into_iter().chain(self.window(limit.window())));
        }
        if charge.account.forgets_ids() {
            for (_, window) in charge.account.windows() {
                call.add(self.window(window));
            }
        }
        call
    }

    /// Replaces the units of a charge by the true ones. If `asks`, the reply names limits that are not sent.
    pub fn settle(&self, cost: &Cost, limits: &BTreeSet<&LimitName>, asks: bool) -> Call {
        let mut call = self.call(Operation::Settle, limits.iter().copied());
        let truth = limits.iter().map(|name| units(cost.of(name)));
        let truth = Value::Array(truth.collect());
        call.add([cost.is_none().into(), asks.into(), truth]);
        call
    }

    /// Adds charges from elsewhere, and floors. A machine that was told of a loss `recovers`.
    pub fn absorb(&self, recovers: bool, entries: &[Entry], floors: &[Floor]) -> Call {
        let charged = entries.iter().flat_map(|entry| entry.cost.limits());
        let names = charged.chain(floors.iter().map(|floor| &floor.limit));
        let names: BTreeSet<&LimitName> = names.collect();
        let mut call = self.call(Operation::Absorb, names.iter().copied());
        let places: HashMap<&LimitName, u64> = names.into_iter().zip(1..).collect();
        // The names of all of them are sent.
        let place = |name: &LimitName| Value::from(places.get(name).copied().unwrap_or_default());
        let of_floor = |floor: &Floor| [place(&floor.limit), time(floor.at), units(floor.used)];
        let floors = Value::Array(floors.iter().flat_map(of_floor).collect());
        call.add([recovers.into(), floors]);
        for entry in entries {
            let cost = entry.cost.iter();
            let cost = cost.flat_map(|(name, taken)| [place(name), units(taken)]);
            let cost = Value::Array(cost.collect());
            call.add([stored_id(&entry.id).into(), time(entry.at), cost]);
        }
        call
    }

    /// Closes a limit; `None` reopens it.
    pub fn close(&self, limit: &str, closing: Option<Closing>) -> Call {
        let mut call = self.call(Operation::Close, [&limit.to_owned()]);
        let words = match closing {
            None => vec!["reopen".into()],
            Some(Closing::Until(until)) => vec!["until".into(), time(until)],
            Some(Closing::Probing) => vec!["probing".into()],
            Some(Closing::Copied { until, interval }) => {
                vec!["until".into(), time(until), micros(interval)]
            }
        };
        call.add(words);
        call
    }

    /// Reads what is stored of limits, whether ids are recorded, and at most so many chunks of the log from an instant on.
    pub fn usage<'n>(
        &self,
        limits: impl IntoIterator<Item = &'n LimitName>,
        (from, most_chunks): (Timestamp, usize),
        ids: &[ChargeId],
    ) -> Call {
        let mut call = self.call(Operation::Usage, limits);
        call.add([time(from), most_chunks.into()]);
        let ids = ids.iter().map(|id| stored_id(id).into_bytes());
        call.arguments.extend(ids);
        call
    }

    /// The terms, then the fields of the limits that the operation needs.
    fn call<'n>(
        &self,
        operation: Operation,
        limits: impl IntoIterator<Item = &'n LimitName>,
    ) -> Call {
        let fields = limits.into_iter();
        let fields = fields.map(|name| format!("limit:{name}").into_bytes());
        let mut arguments: Vec<Vec<u8>> = fields.collect();
        let limits = arguments.len();
        arguments.insert(0, self.packed(limits));
        Call {
            operation,
            keys: keys_of(self.rules.prefix, &self.account.name),
            arguments,
            limits,
        }
    }

    fn packed(&self, limits: usize) -> Vec<u8> {
        let (epoch, sequence, newest) = match self.seen {
            None => ("-", 0, None),
            Some(seen) => (seen.epoch.as_str(), seen.sequence, seen.newest.as_ref()),
        };
        let server_time = match &self.rules.time {
            ServerTime::Own => false.into(),
            ServerTime::Callers => time(self.now),
            ServerTime::Told(clock) => time(clock.now()),
        };
        let windows = self.account.windows().into_iter();
        packed([
            time(self.now),
            self.rules.max_skew.map_or(false.into(), micros),
            server_time,
            epoch.into(),
            sequence.into(),
            newest.map(stored_id).unwrap_or_default().into(),
            // With every operation: the one that finds a loss begins a new epoch (L36).
            fresh_id().to_string().into(),
            micros(self.account.longest_window()),
            micros(sliding_memory(self.account)),
            self.periods(&windows.map(|(_, window)| window).collect::<Vec<_>>()),
            micros(self.rules.least_life),
            limits.into(),
            self.id.map(stored_id).unwrap_or_default().into(),
            time(self.forgotten),
        ])
    }

    /// How far a window slides back, the length of its parts, and its periods; `false` for what it lacks.
    fn window(&self, window: &Window) -> [Value; 3] {
        let micro = Duration::from_micros(1);
        let back = window.sliding().map(|span| span + window.grace() - micro);
        let parts = window.parts().map(|parts| micros(parts.length()));
        [
            back.map_or(false.into(), micros),
            parts.unwrap_or(false.into()),
            self.periods(&[window]),
        ]
    }

    /// When calendars change what counts, each time before the instant from which charges count since then, in one of these
    /// windows at least; `false` where none resets.
    fn periods(&self, windows: &[&Window]) -> Value {
        let changes = windows.iter().flat_map(|window| {
            let resets = self.resets(window).into_iter();
            resets.map(|start| start + window.grace())
        });
        let counted_from = |at: Timestamp| {
            let from = windows.iter().filter_map(|window| {
                let reset = window.last_reset(at - window.grace())?;
                Some(reset - window.grace())
            });
            Some([time(at), time(from.min()?)])
        };
        let changes: BTreeSet<Timestamp> = changes.collect();
        let periods = changes.into_iter().filter_map(counted_from);
        match periods.flatten().collect::<Vec<_>>() {
            none if none.is_empty() => false.into(),
            periods => Value::Array(periods),
        }
    }

    /// The beginnings of a calendar's periods, from three before the caller's clock to three after it. The ledger's can differ, by as
    /// much as `max_skew` where they are compared; otherwise by days, since it stays at the newest charge where its server's clock is
    /// set back.
    fn resets(&self, window: &Window) -> Vec<Timestamp> {
        let Some(calendar) = window.resets() else {
            return Vec::new();
        };
        let periods = 3 * calendar.usual_length();
        let longest = periods.max(3 * DAY);
        let skew = self.rules.max_skew.unwrap_or(longest);
        let margin = periods.saturating_add(skew).min(longest);
        let (first, end) = (calendar.last_reset(self.now - margin), self.now + margin);
        let starts = std::iter::successors(Some(first), |start| {
            let next = calendar.next_reset(*start);
            (next > *start && *start < end).then_some(next)
        });
        starts.collect()
    }
}

impl Call {
    /// The command that runs a function.
    pub fn command(&self, how: &str, what: &str) -> Cmd {
        let mut command = redis::cmd(how);
        command.arg(what).arg(self.keys.len());
        command.arg(&self.keys).arg(&self.arguments);
        command
    }

    /// The command that runs a script.
    pub fn script(&self, how: &str, what: &str) -> Cmd {
        let mut command = self.command(how, what);
        command.arg(<&str>::from(self.operation));
        command
    }

    fn add(&mut self, values: impl IntoIterator<Item = Value>) {
        self.arguments.push(packed(values));
    }
}

/// How long windows that slide remember ids (L11); zero where none slides.
fn sliding_memory(account: &Account) -> Duration {
    let memory = |limit: &Limit| match (limit.window().parts(), limit.window().sliding()) {
        (Some(_), _) => limit.memory_of_parts(),
        (None, Some(span)) => span + limit.grace(),
        (None, None) => Duration::ZERO,
    };
    let memory = account.of_each_window().map(memory).max();
    memory.unwrap_or_default()
}

/// An id as it is stored: between zero bytes, so that its bytes are found in no other.
fn stored_id(id: &ChargeId) -> String {
    format!("\0{id}\0")
}

/// A limit in words, so that configurations that differ can be reported.
fn rule(limit: &Limit) -> String {
    let window = limit.window();
    let slides = window
        .sliding()
        .map(|span| format!(" in {}", humantime::format_duration(span)));
    let resets = window
        .resets()
        .map(|calendar| format!(" a {} of {}", calendar.period(), calendar.zone()));
    let parts = match window.counting() {
        Counting::Exact => None,
        Counting::Buckets(parts) => Some(format!(" in {parts} parts")),
    };
    let quota = format!("{} less {}", limit.quota(), limit.headroom());
    let words = [Some(quota), slides, resets, parts].into_iter().flatten();
    words.collect()
}

fn time(at: Timestamp) -> Value {
    at.micros().unsigned_abs().into()
}

/// Units, at most what Lua can calculate with.
fn units(units: Units) -> Value {
    units.counted().get().into()
}

/// Microseconds, at most what Lua can calculate with.
fn micros(span: Duration) -> Value {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    micros.min(LARGEST).into()
}

/// The keys of an account, in the order in which every operation takes them. All carry its name as a hash tag, so that they are
/// in one slot (L47). `prefix` keeps sandbox runs apart. No other code names a key.
pub fn keys_of(prefix: &str, account: &str) -> [String; 3] {
    ["main", "log", "ids"].map(|part| format!("{prefix}:{{{account}}}:{part}"))
}
