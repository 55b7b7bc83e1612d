//! Batches of ids over eight regions: each id is requested in time, and what fails has had its attempts.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// Only a run that waits for it needs it.
const PATIENCE: Duration = Duration::from_secs(20);
const PAGES: u64 = 4;

/// A page of 50 videos, each of a channel of its own.
fn videos(request: &StubRequest) -> StubAnswer {
    let page: u64 = request
        .param("pageToken")
        .map_or(0, |token| token.parse().unwrap());
    let region = request.param("regionCode").unwrap();
    let video = |number| {
        let id = format!("{region}-{page}-{number}");
        json!({ "id": id, "snippet": { "title": id, "channelId": format!("UC-{id}") } })
    };
    let items: Vec<Value> = (0..50).map(video).collect();
    let next = (page + 1 < PAGES).then(|| (page + 1).to_string());
    StubAnswer::json(&json!({ "items": items, "nextPageToken": next }))
}

fn channels(request: &StubRequest) -> StubAnswer {
    let channel = |id: &str| json!({ "id": id, "snippet": { "title": id } });
    let items: Vec<Value> = request
        .param("id")
        .unwrap()
        .split(',')
        .map(channel)
        .collect();
    StubAnswer::json(&json!({ "items": items }))
}

fn world(upstream: &StubUpstream) -> World {
    let mut world = World::new();
    world.set(&format!(
        "upstreams.youtube.base_url=\"{}\"",
        upstream.url()
    ));
    world.set("upstreams.youtube.pause=\"1ms\"");
    world
}

const RUN: [&str; 6] = ["--region", "all", "--job", "trending", "--concurrency", "8"];

#[test]
fn a_batch_that_failed_is_not_tried_again_in_the_same_run() {
    let upstream = StubUpstream::start(|request| match request.path.as_str() {
        "/channels" => StubAnswer::status(503),
        _ => videos(request),
    });
    let run = world(&upstream).ingest(&RUN);
    assert_eq!(run.code, 1, "{run:?}");
    let mut attempts: BTreeMap<String, u64> = BTreeMap::new();
    for request in upstream
        .requests()
        .iter()
        .filter(|request| request.path == "/channels")
    {
        let ids: HashSet<&str> = request.param("id").unwrap().split(',').collect();
        ids.into_iter()
            .for_each(|id| *attempts.entry(id.to_owned()).or_default() += 1);
    }
    assert_eq!(attempts.len(), 8 * 200, "each was asked for");
    assert!(attempts.values().all(|times| *times == 4), "{attempts:?}");
}

#[test]
fn ids_that_batches_of_another_step_name_are_asked_for_behind_them() {
    let steps = r#"jobs.trending.steps=[
        { call = "videos.list", params = { chart = "mostPopular", regionCode = "{region}" }, max_pages = 4 },
        { call = "search.list", params = { regionCode = "{region}" }, max_pages = 1 },
        { call = "videos.list", params = { id = "{ids}" }, ids = { from = "search.list", at = "/id/videoId", batch = 50 } },
        { call = "channels.list", params = { id = "{ids}" }, ids = { from = "videos.list", at = "/snippet/channelId", batch = 50 } },
    ]"#;
    let searched = (Mutex::new(0), Condvar::new());
    let upstream = StubUpstream::start(move |request| match request.path.as_str() {
        "/search" => {
            *searched.0.lock().unwrap() += 1;
            searched.1.notify_all();
            let id = format!("found-{}", request.param("regionCode").unwrap());
            StubAnswer::json(&json!({ "items": [{ "id": { "videoId": id } }] }))
        }
        "/videos" => match request.param("id") {
            None => videos(request),
            Some(ids) => {
                let video = |id| json!({ "id": id, "snippet": { "title": id, "channelId": id } });
                let items: Vec<Value> = ids.split(',').map(video).collect();
                StubAnswer::json(&json!({ "items": items }))
            }
        },
        // The regions list to their ends meanwhile.
        _ => {
            let waiting = searched.0.lock().unwrap();
            let all = searched
                .1
                .wait_timeout_while(waiting, PATIENCE, |searched| *searched < 8);
            drop(all.unwrap());
            std::thread::sleep(Duration::from_millis(300));
            channels(request)
        }
    });
    let mut world = world(&upstream);
    world.set(steps);
    let run = world.json(&RUN);
    assert_eq!(run["outcome"], "complete", "{run}");
    let requests = upstream.requests();
    let asked: HashSet<&str> = requests
        .iter()
        .filter(|request| request.path == "/channels")
        .flat_map(|request| request.param("id").unwrap().split(','))
        .collect();
    let found = asked.iter().filter(|id| id.starts_with("found-")).count();
    assert_eq!((found, asked.len()), (8, 8 * 200 + 8));
}
