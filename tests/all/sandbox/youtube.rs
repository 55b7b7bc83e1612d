use std::collections::BTreeSet;

use ingest_sandbox::{Options, Sandbox};
use serde_json::Value;

use super::{CHART, Table, ids, shipped, texts};

const SEARCH: &str = "search?part=snippet&type=video&order=date&maxResults=50&regionCode=";

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
    pages(table, &format!("{CHART}{region}"))
        .await
        .iter()
        .flat_map(ids)
        .collect()
}

/// What a refusal says to machines: status, reason of the first error, and the whole.
async fn refused(table: &Table, path: &str) -> (u16, String, Value) {
    let response = table.ask(path).await;
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"]["code"], status);
    (
        status,
        body["error"]["errors"][0]["reason"]
            .as_str()
            .unwrap()
            .to_owned(),
        body,
    )
}

#[tokio::test]
async fn a_chart_is_four_full_pages_without_a_duplicate() {
    let table = Table::youtube().await;
    let pages = pages(&table, &format!("{CHART}GB")).await;
    assert_eq!(pages.len(), 4);
    assert_eq!(
        pages.iter().flat_map(ids).collect::<BTreeSet<_>>().len(),
        200
    );
    assert!(pages[0].get("prevPageToken").is_none());
    assert!(pages[3].get("nextPageToken").is_none());
    let back = pages[1]["prevPageToken"].as_str().unwrap();
    assert_eq!(
        table.json(&format!("{CHART}GB&pageToken={back}")).await["items"],
        pages[0]["items"]
    );
}

#[tokio::test]
async fn two_regions_share_two_fifths_of_their_charts() {
    let table = Table::youtube().await;
    let (here, there) = (chart(&table, "US").await, chart(&table, "BR").await);
    assert_eq!(here.intersection(&there).count(), 80);
}

#[tokio::test]
async fn an_answer_has_the_fields_that_the_real_one_has() {
    let table = Table::youtube().await;
    let page = table.json(&format!("{CHART}IN")).await;
    assert_eq!(page["kind"], "youtube#videoListResponse");
    assert_eq!(page["pageInfo"]["resultsPerPage"], 50);
    let video = &page["items"][0];
    for field in [
        "/etag",
        "/snippet/channelId",
        "/snippet/thumbnails/high/url",
        "/contentDetails/duration",
    ] {
        assert!(
            video.pointer(field).is_some_and(Value::is_string),
            "{field}"
        );
    }
    assert!(video["id"].as_str().unwrap().len() == 11);
    let views = video["statistics"]["viewCount"].as_str().unwrap();
    assert!(views.parse::<u64>().is_ok());
}

#[tokio::test]
async fn what_may_be_missing_is_missing_at_times() {
    let table = Table::youtube().await;
    let pages = pages(&table, &format!("{CHART}DE")).await;
    let videos: Vec<&Value> = pages
        .iter()
        .flat_map(|page| page["items"].as_array().unwrap())
        .collect();
    for field in [
        "/statistics/likeCount",
        "/statistics/commentCount",
        "/snippet/tags",
    ] {
        let there = videos
            .iter()
            .filter(|video| video.pointer(field).is_some())
            .count();
        assert!(there > 80 && there < 200, "{field}: {there}");
    }
}

#[tokio::test]
async fn titles_come_in_many_scripts() {
    let table = Table::youtube().await;
    let pages = pages(&table, &format!("{CHART}US")).await;
    let all: String = pages
        .iter()
        .flat_map(|page| texts(page, "/snippet/title"))
        .collect();
    for sample in ['e', 'а', 'ا', 'क', '雷', '등', 'ก', 'ã', 'ü'] {
        assert!(
            all.contains(sample) || sample == 'क' && all.contains('स'),
            "{sample}"
        );
    }
}

#[tokio::test]
async fn a_listed_video_is_found_by_its_id_and_is_the_same() {
    let table = Table::youtube().await;
    let listed = table.json(&format!("{CHART}FR")).await;
    let wanted = ids(&listed).join(",");
    let found = table
        .json(&format!(
            "videos?part=snippet,contentDetails,statistics&id={wanted}"
        ))
        .await;
    assert_eq!(found["items"], listed["items"]);
}

#[tokio::test]
async fn an_unknown_id_is_absent_without_a_word() {
    let table = Table::youtube().await;
    let known = ids(&table.json(&format!("{CHART}FR")).await).remove(0);
    let found = table
        .json(&format!("videos?part=id&id=dQw4w9WgXcQ,{known},x,,%FF"))
        .await;
    assert_eq!(ids(&found), [known]);
    assert!(
        table
            .json("channels?part=id&id=UCxxxxxxxxxxxxxxxxxxxxxx")
            .await
            .get("items")
            .is_none()
    );
}

#[tokio::test]
async fn an_id_that_was_changed_names_nothing() {
    let table = Table::youtube().await;
    let known = ids(&table.json(&format!("{CHART}US")).await);
    for letter in ["A", "b", "7", "_"] {
        let changed: Vec<String> = known
            .iter()
            .map(|id| format!("{letter}{}", &id[1..]))
            .collect();
        let found = table
            .json(&format!("videos?part=id&id={}", changed.join(",")))
            .await;
        assert!(ids(&found).iter().all(|id| known.contains(id)));
    }
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
        let page = table
            .json(&format!(
                "channels?part=snippet,statistics&id={}",
                batch.join(",")
            ))
            .await;
        assert!(ids(&page).iter().all(|id| batch.contains(id)));
        found += ids(&page).len();
    }
    assert!(
        channels.len() > 150 && channels.len() < 400,
        "{}",
        channels.len()
    );
    assert!(
        found < channels.len() && found * 20 > channels.len() * 19,
        "{found} of {}",
        channels.len()
    );
}

#[tokio::test]
async fn a_search_is_ten_pages_newest_first_with_escaped_titles() {
    let table = Table::youtube().await;
    let pages = pages(&table, &format!("{SEARCH}US")).await;
    assert_eq!(pages.len(), 10);
    assert_eq!(pages[0]["kind"], "youtube#searchListResponse");
    assert_eq!(pages[0]["regionCode"], "US");
    assert_eq!(pages[0]["items"][0]["kind"], "youtube#searchResult");
    let times: Vec<String> = pages
        .iter()
        .flat_map(|page| texts(page, "/snippet/publishedAt"))
        .collect();
    assert!(times.windows(2).all(|two| two[0] >= two[1]));
    let titles: Vec<String> = pages
        .iter()
        .flat_map(|page| texts(page, "/snippet/title"))
        .collect();
    assert!(titles.iter().any(|title| title.contains("&amp;")));
    assert!(titles.iter().all(|title| !title.contains(['"', '<', '\''])));
}

#[tokio::test]
async fn a_found_video_is_fetched_by_its_id() {
    let table = Table::youtube().await;
    let hits = texts(&table.json(&format!("{SEARCH}CA")).await, "/id/videoId");
    let found = table
        .json(&format!("videos?part=snippet&id={}", hits.join(",")))
        .await;
    assert_eq!(ids(&found), hits);
}

#[tokio::test]
async fn every_listing_call_of_the_shipped_file_answers() {
    let table = Table::youtube().await;
    let config = shipped(&[]);
    let given = "part=id,snippet&id=&chart=mostPopular&regionCode=US&channelId=UCx&playlistId=PLx&parentId=Ugx&forHandle=x";
    let video = ids(&table.json(&format!("{CHART}US")).await).remove(1);
    for call in config.upstreams["youtube"].calls.values() {
        let Some(path) = &call.path else { continue };
        let parts = if call.name == "members.list" {
            given.replace("id,snippet", "snippet")
        } else {
            given.to_owned()
        };
        let page = table
            .json(&format!("{}?{parts}&videoId={video}", path.as_str()))
            .await;
        let records = call.records.as_ref().unwrap();
        let list = records.at.find(&page).and_then(Value::as_array).unwrap();
        assert!(!list.is_empty(), "{}", call.name);
        assert!(
            list.iter().all(|item| records.id.iter().all(|id| id
                .pointer()
                .unwrap()
                .text_in(item)
                .is_some())),
            "{}",
            call.name
        );
        assert!(
            list.iter().all(|item| item["snippet"].is_object()),
            "{}",
            call.name
        );
    }
}

#[tokio::test]
async fn parts_that_are_not_asked_for_are_absent() {
    let table = Table::youtube().await;
    let page = table
        .json("videos?part=statistics&chart=mostPopular&regionCode=US")
        .await;
    assert_eq!(page["items"].as_array().unwrap().len(), 5);
    assert!(page["items"][0].get("snippet").is_none());
    assert!(page["items"][0].get("statistics").is_some());
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_told_as_the_real_one_does() {
    let table = Table::youtube().await;
    let cases = [
        ("videos?chart=mostPopular", "missingRequiredParameter"),
        ("videos?part=snippet", "missingRequiredParameter"),
        ("videos?part=nonsense&chart=mostPopular", "unknownPart"),
        (
            "videos?part=id&chart=mostPopular&regionCode=XX",
            "invalidRegionCode",
        ),
        (
            "videos?part=id&chart=mostPopular&regionCode=us",
            "invalidRegionCode",
        ),
        ("videos?part=id&chart=other", "videoChartNotFound"),
        (
            "videos?part=id&chart=mostPopular&maxResults=0",
            "invalidParameter",
        ),
        (
            "videos?part=id&chart=mostPopular&maxResults=51",
            "invalidParameter",
        ),
        (
            "videos?part=id&chart=mostPopular&pageToken=CDIQAA",
            "invalidPageToken",
        ),
        ("search?part=id&maxResults=many", "invalidParameter"),
        ("commentThreads?part=id&videoId=nowhere", "videoNotFound"),
    ];
    for (path, reason) in cases {
        let (status, told, _) = refused(&table, path).await;
        assert_eq!(told, reason, "{path}");
        assert!(status == 400 || status == 404, "{path}");
    }
    assert_eq!(
        table.used("daily"),
        10 + 100,
        "an invalid request costs too"
    );
}

#[tokio::test]
async fn a_token_is_good_for_its_own_list_alone() {
    let table = Table::youtube().await;
    let page = table.json(&format!("{CHART}US")).await;
    let token = page["nextPageToken"].as_str().unwrap();
    let (status, reason, body) = refused(&table, &format!("{CHART}GB&pageToken={token}")).await;
    assert_eq!((status, reason.as_str()), (400, "invalidPageToken"));
    assert_eq!(body["error"]["errors"][0]["location"], "pageToken");
    assert_eq!(
        table.json(&format!("{CHART}US&pageToken={token}")).await["items"]
            .as_array()
            .unwrap()
            .len(),
        50
    );
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

#[tokio::test]
async fn another_seed_is_another_world() {
    let table = Table::youtube().await;
    let other = Table::laid(
        &shipped(&[]),
        Options {
            seed: 7,
            ..Options::default()
        },
    )
    .await;
    let (here, there) = (chart(&table, "US").await, chart(&other, "US").await);
    assert!(here.is_disjoint(&there));
    for batch in there.into_iter().collect::<Vec<_>>().chunks(50) {
        let found = table
            .json(&format!("videos?part=id&id={}", batch.join(",")))
            .await;
        assert!(
            ids(&found).is_empty(),
            "an id of another world names nothing in this one"
        );
    }
}

#[tokio::test]
async fn a_missing_or_wrong_key_is_refused_and_counts_for_nobody() {
    let table = Table::youtube().await;
    let url = table.url("youtube", &format!("{CHART}US"));
    for key in [None, Some(""), Some("wrong")] {
        let request = table.client.get(&url);
        let request = key.into_iter().fold(request, |request, key| {
            request.header("x-goog-api-key", key)
        });
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 400);
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["error"]["details"][0]["reason"], "API_KEY_INVALID");
    }
    assert_eq!(table.used("daily"), 0);
}

#[tokio::test]
async fn any_other_key_is_the_first_credentials() {
    let table = Table::youtube().await;
    let url = table.url("youtube", &format!("{CHART}US"));
    let response = table
        .client
        .get(url)
        .header("x-goog-api-key", "whatever")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(table.used("daily"), 1);
}

#[tokio::test]
async fn what_the_client_has_is_not_sent_again() {
    let table = Table::youtube().await;
    let path = format!("{CHART}US");
    let tag = table.ask(&path).await.headers()["etag"].clone();
    let request = table
        .client
        .get(table.url("youtube", &path))
        .header("if-none-match", tag);
    let response = request
        .header("x-goog-api-key", Sandbox::secret_of("youtube"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 304);
    assert_eq!(response.text().await.unwrap(), "");
}
