//! Each kind of record has a view of its own in the catalog, named after its upstream and itself.

use std::collections::BTreeMap;

use crate::Config;
use crate::document::Document;

/// Refuses two kinds whose views would have one name: SQL ignores case.
pub fn views(config: &Config, document: &Document<'_>) {
    let mut views: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for upstream in config.upstreams.values() {
        for call in upstream.calls.values() {
            let Some(records) = &call.records else {
                continue;
            };
            let kind = (upstream.name.as_str(), records.kind.as_str());
            let view = format!("{}_{}", kind.0, kind.1);
            let first = *views.entry(view.to_ascii_lowercase()).or_insert(kind);
            let place = [
                "upstreams",
                kind.0,
                "calls",
                call.name.as_str(),
                "records",
                "kind",
            ];
            if first != kind {
                document.refuse(
                    &place,
                    format!(
                        "kind {:?} of upstream {:?} already has the catalog view {view:?}",
                        first.1, first.0
                    ),
                    "rename one of the two kinds: UPSTREAM_KIND must differ in more than case",
                );
            }
        }
    }
}
