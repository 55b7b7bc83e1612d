//! Plan, order, the loop, outcome.
