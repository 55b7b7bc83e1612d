//! The main job, through the binary as a user runs it; and over days, with a clock moved by hand.

mod broken_state;
mod buckets;
mod busy;
mod clocks;
mod connections;
mod days;
mod economy;
mod ends;
mod fairness;
mod forbidden;
mod kills;
mod leases;
mod limits;
mod memory;
mod over_redis;
mod pass_time;
mod printed;
mod reads;
mod rejected;
mod secrets;
mod signals;
mod since_vouched;
mod spent;
mod stand_in;
mod suspended;
mod troubled_redis;
mod unavailable;
mod unreachable;
mod vanished;

/// Only the listing of `trending` is walked, and every call is cheap enough for a small limit.
pub const LISTING: [&str; 5] = [
    "jobs.trending.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" }, max_pages = 4 }]",
    "jobs.trending.leave={}",
    "jobs.discover.leave={}",
    "jobs.discover.steps=[{ call = \"videos.list\", params = { part = \"snippet\", chart = \"mostPopular\", regionCode = \"{region}\" } }]",
    "jobs.trending.every=1us",
];
