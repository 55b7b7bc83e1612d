//! Hostile replies of Redis.

mod replies;
