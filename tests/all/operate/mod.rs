//! What an operator needs: deployment, logs, metrics, pings, checks, repairs.

mod backup;
mod bounds;
mod check;
mod deploy;
mod disk;
mod files;
mod first_use;
mod glance;
mod hostile;
mod links;
mod metrics;
mod prometheus;
mod redis_access;
mod redis_service;
mod release;
mod repair;
mod restore;
mod schema;
mod secrets;
mod terminal;
mod try_call;
mod typed;
mod ulimits;
mod unreadable;
