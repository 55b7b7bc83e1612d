//! The domain: what an upstream meters, and the rules by which a charge fits or does not.
//!
//! Pure: no I/O, no clock, no async, no logging. Time is an argument.

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
pub use charge::{ChargeId, Closing, Decision, Entry, Floor, Grant, Outage, Rejection};
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
