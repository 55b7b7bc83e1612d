//! What runs will spend, before they do: the preview of one run, the forecast of a schedule, and what backfills leave to others.
//!
//! Begin with `simulation`: the run itself, over a catalog and a ledger in memory that start as copies of the real ones, and an
//! upstream that repeats its last responses. [`preview()`] is one simulated run within the limits, and one without them where it meets
//! one; [`forecast()`] is a simulated run for each start of a [`Schedule`].
//!
//! Nothing here charges, requests or writes. A run knows nothing of it: `run` never uses this module.

mod forecast;
mod preview;
mod reserve;
mod simulation;

pub use forecast::{
    BackfillForecast, DaySpend, Forecast, Hit, JobFit, LimitForecast, Plan, Schedule,
    ScheduleError, Stalest, Used, forecast, what_fits,
};
pub use preview::{
    FirstUnfit, Fits, JobsHeldBack, KnownPreview, LimitPreview, PREVIOUS_PASSES, PassPreview,
    Preview, Previous, Reads, StepPreview, preview,
};
pub use reserve::reserved;
