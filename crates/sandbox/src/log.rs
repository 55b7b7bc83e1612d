//! The log of requests, without secrets.

use std::collections::BTreeMap;

use serde::Serialize;

use super::request::{CallRequest, Received};
use ingest_quota::Timestamp;

/// One request.
#[derive(Debug, Clone, Serialize)]
pub struct Logged {
    pub at: Timestamp,
    pub upstream: String,
    /// The call; `null` for a request that is none.
    pub call: Option<String>,
    pub account: Option<String>,
    pub path: String,
    /// The parameters, without ids, cursor and secret.
    pub params: BTreeMap<String, String>,
    /// The number of requested ids.
    pub ids: usize,
    pub cursor: Option<String>,
    /// The status of the response; 0 for a dropped connection.
    pub status: u16,
}

impl Logged {
    /// A request for a call.
    pub fn new(
        asked: &CallRequest<'_>,
        ids: usize,
        account: Option<String>,
        at: Timestamp,
    ) -> Self {
        let route = asked.route;
        let left_out = |name: &String| {
            route.page_params().any(|param| param == name) || route.ids_params.contains(name)
        };
        let params = asked.params.iter().filter(|(name, _)| !left_out(name));
        Self {
            at,
            upstream: route.upstream.name.clone(),
            call: Some(route.call.name.clone()),
            account,
            path: asked.path.to_owned(),
            params: params
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            ids,
            cursor: asked.cursor(),
            status: 0,
        }
    }

    /// A request that is no call. Its parameters are omitted, since any of them may be the secret.
    pub fn unknown(arrived: &Received, at: Timestamp) -> Self {
        Self {
            at,
            upstream: arrived.upstream.clone(),
            call: None,
            account: None,
            path: arrived.path.clone(),
            params: BTreeMap::new(),
            ids: 0,
            cursor: None,
            status: 404,
        }
    }
}

/// How often each call was requested.
pub fn calls(log: &[Logged]) -> BTreeMap<&str, u64> {
    let mut calls = BTreeMap::new();
    for call in log.iter().filter_map(|logged| logged.call.as_deref()) {
        let count: &mut u64 = calls.entry(call).or_default();
        *count = count.saturating_add(1);
    }
    calls
}
