//! The domain: what an upstream meters, and the rules by which a charge fits or does not.
//!
//! An [`Account`] has [`Limit`]s; a limit counts [`Units`] in a [`Window`]; a charge has a [`Cost`] in each limit and is granted
//! or rejected as a whole ([`Decision`]). [`admission`] is the one rule for that, for every ledger: `lua/` grants by
//! the same rule, and the tests compare the two.
//!
//! Pure: no I/O, no clock, no async, no logging. Time is an argument, arithmetic saturates. Begin with `admission.rs`, then
//! `window.rs`.

#![warn(missing_docs)]

use std::time::Duration;

mod account;
pub mod admission;
mod calendar;
mod charge;
mod cost;
mod counting;
mod limit;
mod sliding;
mod time;
mod units;
mod usage;
mod window;

pub use account::{Account, SHORTEST_MEMORY};
pub use calendar::{Calendar, Period};
pub use charge::{ChargeId, Closing, Decision, Entry, Floor, Grant, Origin, Outage, Rejection};
pub use cost::Cost;
pub use counting::{Counting, Parts};
pub use limit::{Limit, LimitError};
pub use sliding::SlidingLog;
pub use time::Timestamp;
pub use units::Units;
pub use usage::{LimitUsage, Return};
pub use window::{Window, WindowError};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A limit's name within its account, such as `daily`.
pub type LimitName = String;
