//! The domain: what an upstream meters, and the rules by which a charge fits or does not.
//!
//! Pure: no I/O, no clock, no async, no logging. Time is an argument.

mod account;
pub mod admission;
mod charge;
mod cost;
mod limit;
mod time;
mod units;
mod usage;
mod window;

pub use account::Account;
pub use charge::{ChargeId, Closing, Decision, Entry, Floor, Grant, Outage, Rejection};
pub use cost::Cost;
pub use limit::{Limit, LimitError};
pub use time::Timestamp;
pub use units::Units;
pub use usage::{LimitUsage, Return};
pub use window::{Window, WindowError};

/// A limit's name within its account, such as `daily`.
pub type LimitName = String;
