//! Kinds of records, each with a view of its own in the catalog.

use super::{SMALL, problems, small_with};

/// A second upstream whose kind has this name.
fn with_upstream(upstream: &str, kind: &str) -> String {
    format!(
        "{SMALL}
[upstreams.{upstream}]
base_url = \"https://other.example.com\"
[upstreams.{upstream}.calls.list]
path = \"list\"
cost = 1
records = {{ at = \"/items\", kind = \"{kind}\", id = \"/id\" }}
"
    )
}

#[test]
fn two_kinds_that_would_share_a_view_are_refused() {
    let small = small_with("kind = \"owner\"", "kind = \"a_thing\"");
    for (upstream, kind) in [("things_a", "thing"), ("Things", "a_thing")] {
        let text = with_upstream(upstream, kind).replace(SMALL, &small);
        let found = problems(&text, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        let said = found[0].to_string();
        for words in [
            "records.kind",
            "view",
            "_a_thing",
            "rename one of the two kinds",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}

#[test]
fn kinds_of_one_name_at_two_upstreams_have_views_of_their_own() {
    assert!(problems(&with_upstream("others", "thing"), &[]).is_empty());
}
