use serde_json::json;

use super::fixture::{Fixture, Page, record, records_of};

#[tokio::test]
async fn a_view_follows_the_configured_columns() {
    let f = Fixture::new();
    let page = Page::of(vec![record("a", json!({"one": 1, "two": 2}))]);
    for (columns, select, expected) in [
        (&[("n", "/one")][..], "select n from youtube_k", "1"),
        (&[("n", "/two")][..], "select n from youtube_k", "2"),
        (
            &[("m", "/two"), ("id", "/one")][..],
            "select m, id from youtube_k",
            "2 1",
        ),
    ] {
        f.land(&Page {
            kind: records_of("k", &[], columns),
            ..page.clone()
        })
        .await;
        assert_eq!(f.rows(select), [expected]);
    }
    f.land(&Page {
        kind: records_of("k", &[], &[]),
        ..page
    })
    .await;
    assert_eq!(
        f.rows("select name from sqlite_master where type = 'view'"),
        [""; 0]
    );
}

#[tokio::test]
async fn calls_that_land_one_kind_share_its_view() {
    let f = Fixture::new();
    let page = |call: &str, id: &str, columns: &[(&str, &str)]| Page {
        kind: records_of("k", &[], columns),
        call: call.into(),
        ..Page::of(vec![record(id, json!({ "a": {id: id}, "extra": 1 }))])
    };
    for _ in 0..2 {
        f.land(&page("x.list", "x", &[("name", "/a/x")])).await;
        f.land(&page(
            "y.list",
            "y",
            &[("name", "/a/y"), ("extra", "/extra")],
        ))
        .await;
    }
    assert_eq!(
        f.rows("select name, extra from youtube_k order by id"),
        ["x 1", "y 1"]
    );
}

#[tokio::test]
async fn places_in_arrays_and_arrays_of_arrays_are_columns() {
    let f = Fixture::new();
    let body =
        json!({"list": [{"v": [1, 2]}, "odd", {"v": [3]}, {}], "o": {"a": 1}, "q\"\\'": "quoted"});
    let columns = [
        ("first", "/list/0/v/1"),
        ("each", "/list/*/v"),
        ("all", "/list/*/v/*"),
        ("members", "/o/*"),
        ("quoted", "/q\"\\'"),
        ("whole", ""),
        ("list", "/list"),
        ("nowhere", "/o/a/b/*/c"),
    ];
    f.land(&Page {
        kind: records_of("k", &[], &columns),
        ..Page::of(vec![record("a", body.clone())])
    })
    .await;
    let row = f
        .rows("select first, members, quoted, nowhere, list, \"all\", whole from youtube_k")
        .remove(0);
    assert_eq!(
        row,
        format!("2 [1] quoted [] {} [1,2,3] {body}", body["list"])
    );
    assert_eq!(f.rows("select each from youtube_k"), ["[[1,2],[3]]"]);
}

#[tokio::test]
async fn names_of_any_kind_are_taken_or_do_without_a_view() {
    let f = Fixture::new();
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
    ];
    for name in names {
        for kind in names {
            let columns = [(name, "/v"), ("Title", "/v"), ("title", "/v"), ("ID", "/v")];
            let body = json!({"v": name, name: {"x": [name]}});
            let page = Page {
                upstream: name.into(),
                ..Page::of(vec![record("i", body)])
            };
            f.land(&Page {
                kind: records_of(kind, &["/v"], &columns),
                ..page
            })
            .await;
        }
    }
    assert_eq!(f.count("record"), names.len() * names.len());
    assert_eq!(
        f.rows("select \"a\"\"b\" from \"a\"\"b_a'b; drop table record\""),
        ["a\"b"]
    );
    assert_eq!(
        f.rows("select count(*) from sqlite_master where type = 'view' and name like 'sqlite%'"),
        ["0"]
    );
    let views = f.rows("select name from sqlite_master where type = 'view'");
    for view in &views {
        f.count(&format!("\"{}\"", view.replace('"', "\"\"")));
    }
    assert!(views.len() > 90, "{}", views.len());
}

#[tokio::test]
async fn a_view_never_takes_the_place_of_a_table() {
    let f = Fixture::new();
    let page = Page::of(vec![record("a", json!({"v": "word"}))]);
    let page = Page {
        upstream: "record".into(),
        kind: records_of("version", &["/v"], &[("v", "/v")]),
        ..page
    };
    f.land(&page).await;
    assert_eq!(
        f.rows("select type from sqlite_master where name = 'record_version'"),
        ["table"]
    );
}
