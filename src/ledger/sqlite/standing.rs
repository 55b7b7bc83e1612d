use rusqlite::Result;

use super::rows::{Closed, FloorRow, Rows, signed};
use crate::quota::{Limit, LimitName, Timestamp, Units};

/// How one limit stands at an instant.
pub struct Standing<'a> {
    pub name: &'a LimitName,
    pub limit: &'a Limit,
    /// The limit's running total.
    pub total: i64,
    /// What of the total no longer counts.
    expired: i64,
    floors: Vec<FloorRow>,
    closed: Option<Closed>,
    now: Timestamp,
}

impl<'a> Standing<'a> {
    pub fn read(
        rows: Rows<'_>,
        name: &'a LimitName,
        limit: &'a Limit,
        now: Timestamp,
    ) -> Result<Self> {
        let from = limit.window().counted_from(now);
        let (total, expired) = rows.totals(name, from)?;
        let (floors, closed) = (rows.floors(name, from)?, rows.closing(name)?);
        Ok(Self {
            name,
            limit,
            total,
            expired,
            floors,
            closed,
            now,
        })
    }

    /// What counts, floors included.
    pub fn used(&self) -> Units {
        self.floors
            .iter()
            .map(|floor| self.used_over(floor))
            .fold(self.counted(), Units::max)
    }

    /// What a charge would still get that leaves nothing.
    pub fn remaining(&self) -> Units {
        if self.closed_until().is_some() {
            Units::ZERO
        } else {
            self.limit.enforced().less(self.used())
        }
    }

    pub fn closed_until(&self) -> Option<Timestamp> {
        self.closed
            .map(|closed| closed.until)
            .filter(|until| *until > self.now)
    }

    /// Whether a charge that is granted now is one that tries.
    pub fn is_probing(&self) -> bool {
        self.closed.is_some_and(|closed| closed.probing)
    }

    /// The first instant, now or later, at which `units` fit beside what must be left, if nobody else charges. They must
    /// not be more than the limit can hold.
    pub fn fits_from(&self, rows: Rows<'_>, units: Units, leave: Units) -> Result<Timestamp> {
        let falls = self.falls_to(rows, self.limit.enforced().less(units + leave))?;
        Ok(self.closed_until().map_or(falls, |until| until.max(falls)))
    }

    /// The first instant, now or later, at which no more than `most` units count, if nobody charges.
    pub fn falls_to(&self, rows: Rows<'_>, most: Units) -> Result<Timestamp> {
        let window = self.limit.window();
        let above = self
            .floors
            .iter()
            .filter(|floor| self.used_over(floor) > most);
        let floors_gone = above
            .map(|floor| window.expiry(floor.at))
            .fold(self.now, Timestamp::max);
        if self.counted() <= most {
            return Ok(floors_gone);
        }
        let excess = signed(self.counted().less(most))?;
        let last_to_go = rows.reached(self.name, self.expired.saturating_add(excess))?;
        Ok(floors_gone.max(window.expiry(last_to_go)))
    }

    /// What will count at a later instant, if nobody charges.
    pub fn used_at(&self, rows: Rows<'_>, later: Timestamp) -> Result<Units> {
        let from = self.limit.window().counted_from(later);
        let (total, expired) = rows.totals(self.name, from)?;
        let floors = self
            .floors
            .iter()
            .filter(|floor| floor.at >= from)
            .map(|floor| self.used_over(floor));
        Ok(floors.fold(difference(total, expired), Units::max))
    }

    fn counted(&self) -> Units {
        difference(self.total, self.expired)
    }

    fn used_over(&self, floor: &FloorRow) -> Units {
        floor.used + difference(self.total, floor.total)
    }
}

/// What was charged between two running totals.
pub fn difference(total: i64, earlier: i64) -> Units {
    Units::new(u64::try_from(total.saturating_sub(earlier)).unwrap_or(0))
}
