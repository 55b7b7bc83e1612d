//! See before you spend: previews, forecasts, status, charges by hand, history, exports.

mod by_hand;
mod fairness;
mod forecast;
mod preview;
mod reports;
mod stage;
