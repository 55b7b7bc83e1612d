//! Texts with variables.

use std::collections::BTreeMap;

use ingest_config::{CursorText, Region, SinceValue, Template, Values};
use ingest_quota::Timestamp;
use proptest::prelude::*;

use ingest_testing::fuzz::text_near;

proptest! {
    #[test]
    fn a_changed_template_is_rendered_or_refused(text in text_near("template"), now in any::<i64>(), since in any::<i64>()) {
        let region = Region { code: text.clone(), values: BTreeMap::from([("city".to_owned(), text.clone())]), slice: None };
        let values = Values {
            region: &region,
            ids: std::slice::from_ref(&text),
            cursor: Some(CursorText::Text(&text)),
            now: Timestamp::from_micros(now),
            since: Some(&SinceValue::Time(Timestamp::from_micros(since))),
            parent: &[],
        };
        if let Ok(template) = Template::parse(&text) {
            let _ = template.render(&values);
        }
    }
}
