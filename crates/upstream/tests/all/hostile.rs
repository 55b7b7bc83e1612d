//! Bodies that are within every bound, and that would take hours or all memory if they were read carelessly.

use std::time::{Duration, Instant};

use super::*;

use ingest_config::Removed;
use ingest_upstream::LargeBodySlot;

const MEBIBYTE: usize = 1 << 20;
/// Fewer than the values that a body may have.
const MANY: usize = 120_000;

async fn fetch(
    body: impl Into<Vec<u8>>,
    change: impl FnOnce(&mut Records),
) -> Result<Page, Failure> {
    let upstream = answering(StubAnswer::status(200).body(body));
    let mut asking = asking(&upstream.url());
    asking.upstream.max_body = 32 << 20;
    let mut records = records("/items", &["/id"]);
    change(&mut records);
    asking.call.records = Some(records.into());
    let page = asking.fetch().await?;
    // The next large body of a test would wait for the end of this one.
    let slot = LargeBodySlot::default();
    Ok(Page { slot, ..page })
}

async fn refusal(body: impl Into<Vec<u8>>, change: impl FnOnce(&mut Records)) -> String {
    told(&fetch(body, change).await.unwrap_err())
}

fn of_format(format: Format) -> impl FnOnce(&mut Records) {
    move |records| {
        records.format = format;
        records.at = pointer("");
    }
}

fn of_layout(layout: Layout) -> impl FnOnce(&mut Records) {
    move |records| records.layout = layout
}

fn list(each: impl Fn(usize) -> String, count: usize) -> String {
    (0..count).map(each).collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn a_web_page_whose_tags_never_end_is_shown_as_it_is() {
    for (fragment, shown) in [
        ("<a", "HTML instead of JSON: <a<a"),
        ("<", "HTML instead of JSON: <<"),
    ] {
        let said = refusal(fragment.repeat(4 * MEBIBYTE), |_| {}).await;
        assert!(said.contains(shown), "{said}");
    }
}

#[tokio::test]
async fn an_error_with_a_message_of_tags_that_never_end_is_a_failure() {
    let message = "<a".repeat(4 * MEBIBYTE);
    let said = refusal(
        format!("{{\"error\":{{\"message\":\"{message}\"}}}}"),
        |_| {},
    )
    .await;
    assert!(said.contains("<a<a"), "{said}");
}

#[tokio::test]
async fn a_table_of_very_many_columns_is_read() {
    let names = list(|at| format!("c{at}"), MANY);
    let values = list(|at| at.to_string(), MANY);
    let body = format!("id,{names}\nx,{values}\n");
    let page = fetch(body, of_format(Format::Csv(b','))).await.unwrap();
    assert_eq!(
        (ids(&page), page.records[0].body["c7"].as_str()),
        (vec!["x"], Some("7"))
    );
    let said = refusal(format!("{names},c7\n"), of_format(Format::Csv(b','))).await;
    assert!(
        said.contains("two columns of the first row are named `c7`"),
        "{said}"
    );
}

#[tokio::test]
async fn names_and_values_that_records_repeat_are_bounded() {
    let long = "n".repeat(MEBIBYTE);
    let numbers = list(|at| at.to_string(), MANY / 2);
    let rows = list(|at| format!("[{at},1]"), MANY / 2);
    let lines: String = (0..MANY / 2).map(|at| format!("{at},1\n")).collect();
    let things = list(|at| format!("{{\"id\":{at}}}"), MANY / 2);
    let members = list(|at| format!("\"m{at}\":1"), MANY / 2);
    let by_name = |records: &mut Records| {
        records.at = pointer("/items/*");
        records.key = Some("name".to_owned());
    };
    let columns = |more: &str| format!("{{\"items\":{{\"id\":[{numbers}],{more}}}}}");
    let csv = of_format(Format::Csv(b','));
    let refusals = [
        refusal(format!("id,{long}\n{lines}"), csv).await,
        refusal(
            columns(&format!("\"{long}\":[{numbers}]")),
            of_layout(Layout::Columns),
        )
        .await,
        refusal(
            columns(&format!("\"shared\":\"{long}\"")),
            of_layout(Layout::Columns),
        )
        .await,
        refusal(columns(&members), of_layout(Layout::Columns)).await,
        refusal(
            format!("{{\"items\":[[\"id\",\"{long}\"],{rows}]}}"),
            of_layout(Layout::Rows),
        )
        .await,
        refusal(format!("{{\"items\":{{\"{long}\":[{things}]}}}}"), by_name).await,
    ];
    for said in refusals {
        assert_eq!(
            said,
            "skip: the response contains names or values that all of its records repeat, more than 32 MiB in total; request \
             smaller pages"
        );
    }
}

#[tokio::test]
async fn records_that_repeat_little_are_read_however_many_they_are() {
    let lines: String = (0..MANY).map(|at| format!("{at},1\n")).collect();
    let body = format!("id,{}\n{lines}", "n".repeat(200));
    let page = fetch(body, of_format(Format::Csv(b','))).await.unwrap();
    assert_eq!(page.records.len(), MANY);
    let numbers = list(|at| at.to_string(), MANY);
    let body = format!("{{\"items\":{{\"id\":[{numbers}],\"unit\":\"K\"}}}}");
    let page = fetch(body, of_layout(Layout::Columns)).await.unwrap();
    assert_eq!(page.records[MANY - 1].body["unit"], "K");
}

#[tokio::test]
async fn of_many_changes_of_many_records_the_last_one_of_each_counts() {
    let change = |at: usize| match at < MANY / 4 {
        true => format!("{{\"id\":{at},\"n\":1}}"),
        false => {
            let id = at - MANY / 4;
            format!("{{\"id\":{id},\"n\":2,\"gone\":{}}}", id % 2)
        }
    };
    let body = format!("{{\"items\":[{}]}}", list(change, MANY / 2));
    let page = fetch(body, |records| {
        records.removed = Some(Removed {
            at: pointer("/gone"),
            is: vec!["1".to_owned()],
        });
    })
    .await
    .unwrap();
    assert_eq!(
        (page.records.len(), page.removed.len()),
        (MANY / 8, MANY / 8)
    );
    assert!(page.records.iter().all(|record| record.body["n"] == 2));
    assert_eq!((&*page.records[1].id, &*page.removed[1]), ("2", "3"));
}

#[tokio::test]
async fn xml_takes_time_by_its_length_alone_and_what_is_cut_or_declares_entities_is_not_read() {
    let of_xml = |records: &mut Records| {
        records.format = Format::Xml;
        records.at = pointer("/r/i");
        records.id = vec![Field::At(pointer("/@id"))];
    };
    let attributes: String = (0..MANY / 2).map(|at| format!("a{at}='>' ")).collect();
    let prefixes: String = (0..100)
        .map(|at| format!("<x xmlns:p{at}=\"u\">"))
        .collect();
    let prefixes = format!("{prefixes}{}", "</x>".repeat(100));
    let alike = "<i id=\"1\" xmlns:p=\"u\" xmlns=\"v\"/>".repeat(MANY / 6);
    for (body, listed) in [
        (format!("<r><i id=\"1\" {attributes}/></r>"), 1),
        (format!("<r><i id=\"1\"/>{prefixes}</r>"), 1),
        (format!("<r>{alike}</r>"), MANY / 6),
    ] {
        let begun = Instant::now();
        let page = fetch(body, of_xml).await.unwrap();
        assert_eq!(page.listed, listed as u64);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    for (body, why) in [
        ("<r><i id=\"1\"/>", "the element `r` is not closed"),
        ("<r><i id=\"1\"/></r><r/>", "something beside it"),
        (
            "<r><i id=\"1\"></r>",
            "expected `</i>`, but `</r>` was found",
        ),
        ("<r><i id=\"1<i id=\"/></r>", "a tag contains a `<`"),
        (
            "<r><i id=\"1\" p:id=\"2\"/></r>",
            "the attribute `id` twice",
        ),
        (
            "<!DOCTYPE r [<!ENTITY x \"y\">]><r>&x;</r>",
            "declares entities",
        ),
        ("<r>&nbsp;</r>", "the entity `nbsp`"),
    ] {
        let said = refusal(body.to_owned(), of_xml).await;
        assert!(said.contains(why), "{said}");
    }
    let body = "<!DOCTYPE r SYSTEM \"r.dtd\"><r><i id=\"&#49;&amp;2\"/></r>";
    let page = fetch(body.to_owned(), of_xml).await.unwrap();
    assert_eq!(ids(&page), ["1&2"]);
}

#[tokio::test]
async fn an_id_of_megabytes_is_none() {
    let items = |id: &str| format!("{{\"items\":[{{\"id\":\"{id}\"}},{{\"id\":\"2\"}}]}}");
    let page = fetch(items(&"9".repeat(4 * MEBIBYTE)), |_| {})
        .await
        .unwrap();
    assert_eq!((ids(&page), page.skipped), (vec!["2"], 1));
    let page = fetch(items(&"9".repeat(10_000)), |_| {}).await.unwrap();
    assert_eq!(page.records.len(), 2);
}
