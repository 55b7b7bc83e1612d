//! What people see who query the catalog by SQL: a view of each kind, with the configured columns.

use serde_json::json;

use super::super::fixture::{Page, record, records_of};
use super::Catalog;

pub(crate) async fn a_view_follows_the_configured_columns(f: Catalog) {
    let page = Page::of(vec![record("a", json!({"one": 1, "two": 2}))]);
    let land = |columns: &[(&str, &str)]| {
        let kind = records_of("k", &[], columns);
        let page = Page {
            kind,
            ..page.clone()
        };
        let f = &f;
        async move { f.land(&page).await }
    };
    for (at, expected) in [("/one", "1"), ("/two", "2")] {
        land(&[("n", at)]).await;
        assert_eq!(f.rows("select n from youtube_k"), [expected]);
    }
    land(&[("m", "/two")]).await;
    assert_eq!(f.rows("select m from youtube_k"), ["2"]);
    assert_eq!(f.rows("select parent, gone_at from youtube_k"), ["- -"]);
    land(&[]).await;
    assert_eq!(f.views(), [""; 0]);
}

pub(crate) async fn calls_that_land_one_kind_share_its_view(f: Catalog) {
    let page = |call: &str, id: &str, columns: &[(&str, &str)]| Page {
        kind: records_of("k", &[], columns),
        call: call.into(),
        ..Page::of(vec![record(id, json!({ "a": {id: id}, "extra": 1 }))])
    };
    for _ in 0..2 {
        f.land(&page("x.list", "x", &[("name", "/a/x")])).await;
        let more = [("name", "/a/y"), ("extra", "/extra")];
        f.land(&page("y.list", "y", &more)).await;
    }
    let shown = f.rows("select name, extra from youtube_k order by id");
    assert_eq!(shown, ["x 1", "y 1"]);
}

pub(crate) async fn places_in_arrays_and_arrays_of_arrays_are_columns(f: Catalog) {
    let body =
        json!({"list": [{"v": [1, 2]}, "odd", {"v": [3]}, {}], "o": {"a": 1}, "q\"\\'": "quoted"});
    let columns = [
        ("first", "/list/0/v/1", "2".to_owned()),
        ("each", "/list/*/v", "[[1,2],[3]]".to_owned()),
        ("all", "/list/*/v/*", "[1,2,3]".to_owned()),
        ("members", "/o/*", "[1]".to_owned()),
        ("quoted", "/q\"\\'", "quoted".to_owned()),
        ("list", "/list", body["list"].to_string()),
        ("nowhere", "/o/a/b/*/c", "[]".to_owned()),
    ];
    let named = columns.each_ref().map(|(name, at, _)| (*name, *at));
    f.land(&Page {
        kind: records_of("k", &[], &named),
        ..Page::of(vec![record("a", body)])
    })
    .await;
    for (name, _, expected) in columns {
        let select = format!("select \"{name}\" from youtube_k");
        assert_eq!(f.rows(&select), [expected], "{name}");
    }
}

pub(crate) async fn names_of_any_kind_are_taken_or_do_without_a_view(f: Catalog) {
    let long = "ä".repeat(60);
    let names = [
        "a\"b",
        "a'b; drop table record",
        "größe",
        "sqlite",
        "record",
        "a b",
        "",
        "\0x",
        "select",
        "日本",
        "\u{1b}[31m",
        &long,
    ];
    for name in names {
        for kind in names {
            let columns = [(name, "/v"), ("Title", "/v"), ("title", "/v"), ("ID", "/v")];
            f.land(&Page {
                upstream: name.into(),
                kind: records_of(kind, &["/v"], &columns),
                ..Page::of(vec![record("i", json!({"v": name, name: {"x": [name]}}))])
            })
            .await;
        }
    }
    // The names of tables.
    for kind in ["text", "version"] {
        f.land(&Page {
            upstream: "record".into(),
            kind: records_of(kind, &["/v"], &[("v", "/v")]),
            ..Page::of(vec![record("i", json!({"v": 1}))])
        })
        .await;
    }
    let count = (names.len() * names.len() + 2).to_string();
    assert_eq!(f.rows("select count(*) from record"), [count]);
    let quoted = r#"select "a""b" from "a""b_a'b; drop table record""#;
    assert_eq!(f.rows(quoted), ["a\"b"]);
    let views = f.views();
    for view in &views {
        let view = view.replace('"', "\"\"");
        let select = format!("select count(*) from \"{view}\"");
        assert_eq!(f.rows(&select).len(), 1, "{view}");
    }
    assert!(views.len() > 90, "{}", views.len());
}
