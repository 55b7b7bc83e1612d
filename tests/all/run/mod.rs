//! The main job, through the binary as a user runs it.

mod bad_answers;
mod busy;
mod first_run;
mod limits;
mod over_redis;
mod secrets;
mod signals;
mod spent;
