//! The shipped configuration in the sandbox.

use std::collections::BTreeSet;

use ingest_sandbox::Options;
use serde_json::Value;

use super::{CHART, Table, ids, shipped, texts};

/// Every page of a list.
async fn pages(table: &Table, path: &str) -> Vec<Value> {
    let mut pages = vec![table.json(path).await];
    while let Some(token) = pages.last().unwrap()["nextPageToken"]
        .as_str()
        .map(str::to_owned)
    {
        pages.push(table.json(&format!("{path}&pageToken={token}")).await);
        assert!(pages.len() < 100);
    }
    pages
}

async fn chart(table: &Table, region: &str) -> BTreeSet<String> {
    let pages = pages(table, &format!("{CHART}{region}")).await;
    let ids: Vec<String> = pages.iter().flat_map(ids).collect();
    let distinct: BTreeSet<String> = ids.iter().cloned().collect();
    assert_eq!((pages.len(), ids.len(), distinct.len()), (4, 200, 200));
    distinct
}

#[tokio::test]
async fn every_page_of_two_regions_shares_two_fifths_and_another_seed_is_another_world() {
    let table = Table::youtube().await;
    let (here, there) = (chart(&table, "US").await, chart(&table, "BR").await);
    assert_eq!(here.intersection(&there).count(), 80);
    let first = ids(&table.json(&format!("{CHART}US")).await);
    assert_eq!(first.iter().filter(|id| there.contains(*id)).count(), 20);
    let other = Options {
        seed: 7,
        ..Options::default()
    };
    let other = Table::laid(&shipped(&[]), other).await;
    assert!(here.is_disjoint(&chart(&other, "US").await));
}

#[tokio::test]
async fn texts_have_what_must_be_escaped_and_several_scripts() {
    let table = Table::youtube().await;
    let pages = pages(&table, &format!("{CHART}US")).await;
    let titles: Vec<String> = pages
        .iter()
        .flat_map(|page| texts(page, "/snippet/title"))
        .collect();
    let all = titles.concat();
    for sample in [
        "Puppy", "ä", "É", "а", "ا", "車", "둥", "&", "\"", "<", "'", "🎬",
    ] {
        assert!(all.contains(sample), "{sample}");
    }
}

#[tokio::test]
async fn a_listed_record_is_found_by_its_id_and_is_the_same() {
    let table = Table::youtube().await;
    let listed = table.json(&format!("{CHART}FR")).await;
    let wanted = ids(&listed).join(",");
    let found = table
        .json(&format!("videos?part=snippet&id={wanted}"))
        .await;
    let listed = listed["items"].as_array().unwrap();
    let found = found["items"].as_array().unwrap();
    assert!(
        found.len() > 40 && found.len() <= listed.len(),
        "{}",
        found.len()
    );
    assert!(found.iter().all(|one| listed.contains(one)));
}

#[tokio::test]
async fn most_channels_of_a_chart_exist_and_a_few_do_not() {
    let table = Table::youtube().await;
    let mut channels = BTreeSet::new();
    for region in ["US", "GB", "DE"] {
        let pages = pages(&table, &format!("{CHART}{region}")).await;
        channels.extend(
            pages
                .iter()
                .flat_map(|page| texts(page, "/snippet/channelId")),
        );
    }
    let channels: Vec<String> = channels.into_iter().collect();
    let mut found = 0;
    for batch in channels.chunks(50) {
        let path = format!("channels?part=snippet,statistics&id={}", batch.join(","));
        let page = table.json(&path).await;
        assert!(ids(&page).iter().all(|id| batch.contains(id)));
        found += ids(&page).len();
    }
    let count = channels.len();
    assert!(count > 150 && count < 400, "{count}");
    assert!(
        found < count && found * 20 > count * 18,
        "{found} of {count}"
    );
}

#[tokio::test]
async fn every_listing_call_of_the_shipped_file_answers() {
    let table = Table::youtube().await;
    let config = shipped(&[]);
    for call in config.upstreams["youtube"].calls.values() {
        let Some(path) = &call.path else { continue };
        let page = table.json(&format!("{}?part=snippet", path.as_str())).await;
        let records = call.records.as_ref().unwrap();
        let list = records.at.find(&page).and_then(Value::as_array).unwrap();
        assert!(!list.is_empty(), "{}", call.name);
        let mut places = records.id.iter().map(|id| id.pointer().unwrap());
        assert!(
            places.all(|at| list.iter().all(|item| at.text_in(item).is_some())),
            "{}",
            call.name
        );
        let mut columns = records.columns.values();
        assert!(
            columns.all(|column| list.iter().all(|item| column.at.find(item).is_some())),
            "{}",
            call.name
        );
    }
}

#[tokio::test]
async fn a_token_is_good_for_its_own_list_alone() {
    let table = Table::youtube().await;
    let page = table.json(&format!("{CHART}US")).await;
    let token = page["nextPageToken"].as_str().unwrap();
    let elsewhere = table.ask(&format!("{CHART}GB&pageToken={token}")).await;
    assert_eq!(elsewhere.status(), 400);
    let body: Value = elsewhere.json().await.unwrap();
    assert_eq!(body["error"]["errors"][0]["reason"], "invalidPageToken");
    let second = table.json(&format!("{CHART}US&pageToken={token}")).await;
    assert_eq!(second["items"].as_array().unwrap().len(), 50);
}

#[tokio::test]
async fn a_walk_goes_on_in_another_sandbox_of_the_same_seed() {
    let (first, second) = (Table::youtube().await, Table::youtube().await);
    let path = format!("{CHART}JP");
    let page = first.json(&path).await;
    let token = page["nextPageToken"].as_str().unwrap();
    assert_eq!(second.json(&path).await, page);
    let on = format!("{path}&pageToken={token}");
    assert_eq!(second.json(&on).await, first.json(&on).await);
}
