//! A local stand-in for every configured upstream, with its own count of the quota.
