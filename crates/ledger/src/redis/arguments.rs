//! The arguments of the operations; the files of `lua/` list them in their order.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use rmpv::Value;

use crate::{Charge, Seen, fresh_id};
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Counting, Entry, Floor, Limit, LimitName, Timestamp, Units,
    Window,
};

/// The largest number that Lua takes: it calculates in doubles.
const LARGEST: u64 = Units::MOST_COUNTED.get();
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The arguments of one call.
pub struct Arguments {
    /// The number of limits that are sent.
    pub limits: usize,
    pub packed: Vec<Vec<u8>>,
}

/// Who calls, and on which terms: the first argument of every operation.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    pub account: &'a Account,
    /// What this machine has seen of the ledger.
    pub seen: Option<&'a Seen>,
    /// This machine's clock.
    pub now: Timestamp,
    pub max_skew: Option<Duration>,
    /// A time to use instead of the server's; `None` in production.
    pub server_time: Option<Timestamp>,
    /// How long the keys live at least.
    pub least_life: Duration,
    /// The id that is charged or settled.
    pub id: Option<&'a ChargeId>,
    /// Up to when charges under the id are none that a charge repeats.
    pub forgotten: Timestamp,
}

impl Arguments {
    /// The caller's terms, then the fields of the limits that the operation needs.
    pub fn new<'n>(terms: &Terms<'_>, limits: impl IntoIterator<Item = &'n LimitName>) -> Self {
        let fields = limits.into_iter();
        let fields = fields.map(|name| format!("limit:{name}").into_bytes());
        let mut packed: Vec<Vec<u8>> = fields.collect();
        let limits = packed.len();
        packed.insert(0, terms.packed(limits));
        Self { limits, packed }
    }

    /// What a charge takes of each limit.
    pub fn charge(mut self, charge: Charge<'_>, terms: &Terms<'_>) -> Self {
        for (name, limit) in charge.account.charged(charge.cost) {
            let most = limit.enforced().saturating_sub(charge.leave.of(name));
            let mut values = vec![
                units(charge.cost.of(name)),
                units(most),
                Value::from(rule(limit)),
            ];
            values.extend(terms.window(limit.window()));
            self.packed.push(packed(&values));
        }
        if charge.account.forgets_ids() {
            let windows = charge.account.windows().into_iter();
            let windows = windows.map(|(_, window)| packed(&terms.window(window)));
            self.packed.extend(windows);
        }
        self
    }

    /// The true units of each limit. `asks`: whether the reply names limits that are not sent.
    pub fn settle<'n>(
        mut self,
        cost: &Cost,
        limits: impl IntoIterator<Item = &'n LimitName>,
        asks: bool,
    ) -> Self {
        let truth = limits.into_iter().map(|name| units(cost.of(name)));
        let truth = Value::Array(truth.collect());
        let releases = cost.is_none();
        self.packed
            .push(packed(&[releases.into(), asks.into(), truth]));
        self
    }

    /// Charges from elsewhere, and floors.
    pub fn absorb(
        mut self,
        mode: &str,
        limits: &BTreeSet<&LimitName>,
        entries: &[Entry],
        floors: &[Floor],
    ) -> Self {
        let places: HashMap<&LimitName, u64> = limits.iter().copied().zip(1..).collect();
        // The names of all of them are sent.
        let place = |name: &LimitName| Value::from(places.get(name).copied().unwrap_or_default());
        let of_floor = |floor: &Floor| [place(&floor.limit), time(floor.at), units(floor.used)];
        let floors = Value::Array(floors.iter().flat_map(of_floor).collect());
        self.packed.push(packed(&[mode.into(), floors]));
        for entry in entries {
            let cost = entry.cost.iter();
            let cost = cost.flat_map(|(name, taken)| [place(name), units(taken)]);
            let cost = Value::Array(cost.collect());
            self.packed
                .push(packed(&[stored_id(&entry.id).into(), time(entry.at), cost]));
        }
        self
    }

    /// How a limit is closed; `None` reopens it.
    pub fn close(mut self, closing: Option<Closing>) -> Self {
        let values = match closing {
            None => vec!["reopen".into()],
            Some(Closing::Until(until)) => vec!["until".into(), time(until)],
            Some(Closing::Probing) => vec!["probing".into()],
            Some(Closing::Copied { until, interval }) => {
                vec!["copied".into(), time(until), micros(interval)]
            }
        };
        self.packed.push(packed(&values));
        self
    }

    /// Which part of the log is read, and ids.
    pub fn usage(mut self, from: Timestamp, most_chunks: usize, ids: &[ChargeId]) -> Self {
        self.packed.push(packed(&[time(from), most_chunks.into()]));
        self.packed
            .extend(ids.iter().map(|id| stored_id(id).into_bytes()));
        self
    }
}

impl Terms<'_> {
    fn packed(&self, limits: usize) -> Vec<u8> {
        let (epoch, sequence, newest) = match self.seen {
            None => ("-", 0, None),
            Some(seen) => (seen.epoch.as_str(), seen.sequence, seen.newest.as_ref()),
        };
        packed(&[
            time(self.now),
            self.max_skew.map_or(false.into(), micros),
            self.server_time.map_or(false.into(), time),
            epoch.into(),
            sequence.into(),
            newest.map(stored_id).unwrap_or_default().into(),
            // With every operation: the one that finds a loss begins a new epoch (L36).
            fresh_id().to_string().into(),
            micros(self.account.longest_window()),
            micros(sliding_memory(self.account)),
            self.forgets(),
            micros(self.least_life),
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
        let periods = self.periods(window);
        [
            back.map_or(false.into(), micros),
            parts.unwrap_or(false.into()),
            periods.map_or(false.into(), Value::Array),
        ]
    }

    /// When a calendar changes what counts, and from when charges count since then.
    fn periods(&self, window: &Window) -> Option<Vec<Value>> {
        let grace = window.grace();
        let changes = self.resets(window)?.into_iter();
        Some(
            changes
                .flat_map(|start| [time(start + grace), time(start - grace)])
                .collect(),
        )
    }

    /// The beginnings of a calendar's periods, from three before the caller's clock to three after it. The ledger's can differ, by as
    /// much as `max_skew` where they are compared; otherwise by days, since it stays at the newest charge where its server's clock is
    /// set back.
    fn resets(&self, window: &Window) -> Option<Vec<Timestamp>> {
        let calendar = window.resets()?;
        let periods = 3 * calendar.usual_length();
        let longest = periods.max(3 * DAY);
        let margin = self
            .max_skew
            .map_or(longest, |skew| periods.saturating_add(skew).min(longest));
        let (first, end) = (calendar.last_reset(self.now - margin), self.now + margin);
        let starts = std::iter::successors(Some(first), |start| {
            let next = calendar.next_reset(*start);
            (next > *start && *start < end).then_some(next)
        });
        Some(starts.collect())
    }

    /// When calendars forget ids (L11): instants, each before the first charge that is remembered since then; `false` where no limit
    /// resets.
    fn forgets(&self) -> Value {
        let limits = self.account.of_each_window().map(Limit::window);
        let calendars: Vec<&Window> = limits.filter(|window| window.resets().is_some()).collect();
        let changes = calendars.iter().flat_map(|window| {
            let resets = self.resets(window).unwrap_or_default().into_iter();
            resets.map(|start| start + window.grace())
        });
        let counted = |at: Timestamp| {
            let from = calendars.iter().filter_map(|window| {
                let reset = window.last_reset(at - window.grace())?;
                Some(reset - window.grace())
            });
            Some([time(at), time(from.min()?)])
        };
        let changes: BTreeSet<Timestamp> = changes.collect();
        let forgets: Vec<Value> = changes.into_iter().filter_map(counted).flatten().collect();
        match forgets.is_empty() {
            true => false.into(),
            false => Value::Array(forgets),
        }
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

/// Values one after another in MessagePack, which Lua reads many times faster than text.
fn packed(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        // Writing to memory does not fail.
        let _ = rmpv::encode::write_value(&mut bytes, value);
    }
    bytes
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
