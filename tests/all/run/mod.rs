//! The main job, through the binary as a user runs it; and over days, with a clock moved by hand.

mod bad_answers;
mod broken_state;
mod busy;
mod clocks;
mod connections;
mod days;
mod edited_steps;
mod fairness;
mod first_run;
mod fruitless;
mod json;
mod kills;
mod limits;
mod memory;
mod over_redis;
mod pass_time;
mod printed;
mod secrets;
mod signals;
mod spent;
mod stand_in;
mod suspended;
mod troubled_redis;
mod unreachable;
mod vanished;
mod wrong_config;
