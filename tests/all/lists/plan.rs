//! What a generated upstream is: how it pages, what it is configured as, and what happens. Everything is a small number, so that
//! proptest can shrink it.

use proptest::prelude::*;
use serde::Serialize;

/// How the pages of a list follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Kind {
    Token,
    /// The token is the id of the last record.
    Last,
    NextUrl,
    Link,
    Offset,
    Number,
}

impl Kind {
    /// Whether the cursor counts pages or records, so that a list that loses records while it is read hides others: no reader
    /// can see that.
    pub fn counts(self) -> bool {
        matches!(self, Self::Offset | Self::Number)
    }

    /// Whether the response names the next page.
    pub fn leads(self) -> bool {
        matches!(self, Self::Token | Self::NextUrl | Self::Link)
    }
}

/// A name that the upstream has, and that the configuration has right or wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Name {
    Size,
    Param,
    Next,
    More,
    Done,
    Total,
    At,
    Id,
}

pub const NAMES: [Name; 8] = [
    Name::Size,
    Name::Param,
    Name::Next,
    Name::More,
    Name::Done,
    Name::Total,
    Name::At,
    Name::Id,
];

/// What a response says of the number of all records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Total {
    Absent,
    Right,
    /// The first page alone has it.
    First,
    /// All pages but the first have it.
    Later,
    /// It still counts records that are gone.
    High,
}

/// Something that changes at the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Change {
    /// This number of new records appears.
    Grow(u8),
    /// The record at this place goes.
    Lose(u8),
    /// The record at this place is updated.
    Update(u8),
    /// The most records of a page.
    Cap(u8),
    /// A member or a parameter has its other name.
    Rename(Name),
}

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Event {
    Change(Change),
    /// A run, and what changes before its request of this number, counted from 0.
    Run(Option<(u8, Change)>),
}

/// An upstream, its configuration, and what happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct World {
    pub kind: Kind,
    /// The records at first.
    pub rows: u8,
    /// The size of a page, if the configuration has one, and whether requests carry it.
    pub size: Option<(u8, bool)>,
    /// The most records of a page.
    pub cap: u8,
    /// The records of a page whose size is not requested.
    pub usual: u8,
    /// Whether the newest record comes first.
    pub newest_first: bool,
    /// Whether the last page names its next one as null; it leaves it out otherwise.
    pub null_at_end: bool,
    pub total: Total,
    /// Whether pages say whether there are more, and whether they are the last.
    pub more: bool,
    pub done: bool,
    /// What the configuration reads of what pages say.
    pub reads: [bool; 3],
    /// Whether the other names are none that many upstreams have.
    pub obscure: bool,
    /// The name that the configuration has wrong.
    pub wrong: Option<Name>,
    /// How the list names `{since}`: 0 not at all, 1 by time, 2 by the records.
    pub since: u8,
    pub events: Vec<Event>,
}

impl World {
    /// A list of twelve records with pages of five, read as it is.
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            rows: 12,
            size: Some((5, true)),
            cap: 5,
            usual: 5,
            newest_first: false,
            null_at_end: true,
            total: Total::Absent,
            more: false,
            done: false,
            reads: [false; 3],
            obscure: false,
            wrong: None,
            since: 0,
            events: vec![Event::Run(None), Event::Run(None)],
        }
    }

    /// The configured size; `None` if there is none.
    pub fn page_size(&self) -> Option<u8> {
        self.size.map(|(size, _)| size)
    }
}

pub fn worlds() -> impl Strategy<Value = World> {
    const KINDS: [Kind; 6] = [
        Kind::Token,
        Kind::Last,
        Kind::NextUrl,
        Kind::Link,
        Kind::Offset,
        Kind::Number,
    ];
    let totals = prop_oneof![
        3 => Just(Total::Absent),
        3 => Just(Total::Right),
        1 => Just(Total::First),
        1 => Just(Total::Later),
        1 => Just(Total::High),
    ];
    let list = (prop::sample::select(&KINDS[..]), 0_u8..=24, totals);
    let size = prop::option::weighted(0.8, (1_u8..=8, prop::bool::weighted(0.8)));
    let pages = (size, 1_u8..=8, 1_u8..=8, prop::bool::weighted(0.6));
    let says = (any::<[bool; 4]>(), any::<[bool; 3]>(), any::<bool>());
    let wrong = prop::option::weighted(0.4, prop::sample::select(&NAMES[..]));
    let since = prop_oneof![3 => Just(0_u8), 1 => Just(1), 1 => Just(2)];
    let events = prop::collection::vec(event(), 1..=5);
    (list, pages, says, (wrong, since), events).prop_map(|(list, pages, says, meant, events)| {
        let (kind, rows, total) = list;
        let (size, cap, usual, honours) = pages;
        let ([newest_first, null_at_end, more, done], reads, obscure) = says;
        let size = match (kind, size) {
            (Kind::Offset, None) => Some((usual, false)),
            (_, size) => size,
        };
        let world = World {
            kind,
            rows,
            size,
            cap: if honours {
                size.map_or(cap, |(size, _)| size)
            } else {
                cap
            },
            usual,
            newest_first,
            null_at_end,
            total,
            more,
            done,
            reads,
            obscure,
            wrong: meant.0,
            since: meant.1,
            events,
        };
        world.sound()
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => prop::option::weighted(0.3, (0_u8..5, change(false))).prop_map(Event::Run),
        2 => change(true).prop_map(Event::Change),
    ]
}

fn change(between: bool) -> impl Strategy<Value = Change> {
    let of_rows = prop_oneof![
        2 => (1_u8..=9).prop_map(Change::Grow),
        2 => (0_u8..24).prop_map(Change::Lose),
        1 => (0_u8..24).prop_map(Change::Update),
    ];
    let of_upstream = prop_oneof![
        (1_u8..=8).prop_map(Change::Cap),
        prop::sample::select(&NAMES[..]).prop_map(Change::Rename),
    ];
    match between {
        true => prop_oneof![1 => of_rows, 1 => of_upstream].boxed(),
        false => of_rows.boxed(),
    }
}

impl World {
    /// The same world without what no configuration of this kind can say.
    fn sound(mut self) -> Self {
        if matches!(self.kind, Kind::Link) {
            (self.more, self.done) = (false, false);
        }
        if matches!(self.kind, Kind::Last) {
            self.newest_first = false;
        }
        self
    }
}
