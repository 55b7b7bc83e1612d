//! See before you spend: previews, forecasts, status, charges by hand, history, exports.

mod beside_a_run;
mod bounds;
mod by_hand;
mod fairness;
mod forecast;
mod forms;
mod paced;
mod pictured;
mod preview;
mod printed;
mod promises;
mod reserve;
mod retry;
mod several_limits;
mod spreadsheet;
mod stage;
mod strange;
mod untouched;
mod waited;
