//! The page: every view without scripts, whatever upstreams write.

use super::{Served, first_pass};
use crate::support::world::World;

const MANY: &str = "serve.readers={ quota = 100_000, window = \"1min\" }";

#[test]
fn every_view_is_a_page_without_scripts() {
    let served = Served::after_a_run(&[MANY, "serve.query_timeout=30s"]);
    for (path, shown) in [
        ("/", "youtube/daily"),
        ("/search", "Words"),
        ("/search?q=a&kind=video&region=US&since=7d", "record"),
        ("/history", "trending"),
        ("/history?since=1d", "trending"),
        ("/plan", "Limits"),
        ("/plan?region=US&job=trending", "Limits"),
        (
            "/plan?schedule=daily&days=1&region=US&job=trending",
            "Forecast",
        ),
    ] {
        let page = served.get(path);
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, Some("text/html; charset=utf-8")),
            "{path}"
        );
        let text = page.text();
        assert!(text.contains(shown), "{path}: {text}");
        for forbidden in [
            "<script",
            "javascript:",
            " style=",
            " onclick",
            "<iframe",
            "http://",
            "https://fonts",
        ] {
            assert!(!text.contains(forbidden), "{path} contains {forbidden}");
        }
        for needed in [
            "<html lang=\"en\">",
            "<main",
            "<h1>",
            "name=\"viewport\"",
            "aria-current=\"page\"",
            "href=\"#content\"",
        ] {
            assert!(text.contains(needed), "{path} lacks {needed}");
        }
    }
}

#[test]
fn the_style_sheet_has_a_name_of_its_content_and_is_kept() {
    let served = Served::new(&[MANY]);
    let page = served.get("/").text();
    let path = page
        .split("rel=\"stylesheet\" href=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let style = served.get(path);
    assert_eq!(
        (style.status, style.header("content-type")),
        (200, Some("text/css; charset=utf-8"))
    );
    assert!(style.header("cache-control").unwrap().contains("immutable"));
    assert!(style.text().contains("prefers-color-scheme: dark"));
    assert_eq!(served.get("/style-0000000000000000.css").status, 404);
}

#[test]
fn what_an_upstream_writes_is_text() {
    let mut served = Served::after_a_run(&[MANY]);
    let hostile = r#"<script>alert(1)</script><img src=x onerror=alert(1)> "quoted" & 'so' zzyzx"#;
    let body = serde_json::json!({
        "id": "evil", "snippet": { "title": hostile, "channelTitle": "javascript:alert(1)", "channelId": "https://example.com/?a=1&b=\"2", "publishedAt": "\u{202e}desrever" },
    });
    let catalog = served.world.catalog();
    catalog
        .execute(
            "update record set body = ?1, id = '<b>evil</b>', text_hash = null where number = (select min(number) from record where kind = 'video')",
            [body.to_string()],
        )
        .unwrap();
    drop(catalog);
    assert_eq!(served.world.ingest(&["repair"]).code, 0);
    let page = served.get("/search?q=zzyzx");
    let text = page.text();
    assert!(text.contains("1 record"), "{text}");
    for forbidden in ["<script", "<img", "<b>", "href=\"javascript", "\u{202e}"] {
        assert!(!text.contains(forbidden), "{forbidden}: {text}");
    }
    assert!(text.contains("rel=\"noreferrer\""), "{text}");
    let own = served.get("/search?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&kind=%3Cscript%3E&region=%3Cscript%3E").text();
    assert!(!own.contains("<script"), "{own}");
    let word = served.get("/search?q=zzyz").text();
    assert!(
        word.contains("1 record"),
        "the word that is being typed: {word}"
    );
    assert_eq!(
        served.get("/api/v1/search?q=zzyz").json()["hits"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    assert_eq!(
        served.get("/api/v1/search?q=zzyz*").json()["hits"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    served.child.kill().unwrap();
}

#[test]
fn a_mistake_in_a_filter_is_shown_beside_the_form() {
    let served = Served::after_a_run(&[MANY, "serve.query_timeout=30s"]);
    let page = served.get("/plan?schedule=sometimes");
    assert_eq!(page.status, 400);
    assert!(page.text().contains("class=\"bad\"") && page.text().contains("<form"));
    let page = served.get("/search?q=a&kind=vidoe");
    assert_eq!(page.status, 400);
    assert!(page.text().contains("did you mean `video`") && page.text().contains("<form"));
    let page = served.get("/history?since=yesterday");
    assert_eq!(page.status, 400);
    assert!(page.text().contains("write for example 7d") && page.text().contains("<form"));
}

#[test]
fn a_forecast_that_takes_longer_than_a_page_has_time_ends_earlier_and_says_so() {
    let served = Served::after_a_run(&[MANY, "serve.query_timeout=3s"]);
    let page = served.get("/plan?region=all&schedule=*+*+*+*+*&days=60");
    assert_eq!(page.status, 200, "{}", page.text());
    assert!(
        page.text().contains("has no time for more"),
        "{}",
        page.text()
    );
    assert!(page.text().contains(" runs until "), "{}", page.text());
    let day = served.get("/plan?region=US&schedule=daily&days=1").text();
    assert!(
        !day.contains("has no time for more") && day.contains("The stalest region"),
        "{day}"
    );
}

#[test]
fn a_forecast_over_very_many_runs_is_cut_and_answered() {
    let codes = ('A'..='D').flat_map(|first| {
        let code = move |second| format!("\"{first}{second}\"");
        ('A'..='Z').map(code)
    });
    let regions = format!("regions=[{}]", codes.collect::<Vec<_>>().join(","));
    let served = Served::new(&[MANY, "serve.query_timeout=20s", &regions]);
    // 57,600 runs over 104 regions: no machine simulates them within half of that time.
    let answer = served.get("/plan?region=all&schedule=*+*+*+*+*&days=40");
    let text = answer.text();
    assert_eq!(answer.status, 200, "{text}");
    assert_eq!(text.matches("<span>search.list</span>").count(), 104);
    assert!(text.contains("has no time for more"), "{text}");
}

#[test]
fn a_pass_over_a_slice_leads_to_the_passes_over_its_region() {
    let text = r#"
regions = ["US", "GB"]
[upstreams.things]
base_url = "http://127.0.0.1:1"
[upstreams.things.calls.list]
path = "things"
cost = 1
params = { region = "{region}" }
records = { at = "/items", kind = "thing", id = "/id" }
[credentials.things]
upstream = "things"
limits = { daily = { quota = 100, window = "1h" } }
[jobs.months]
credential = "things"
slices = { from = "2024-01-01", step = "month", to = "2024-02-01" }
steps = [{ call = "list", params = { month = "{slice.from:%m}" } }]
"#;
    let world = World::written(text, &[MANY]);
    let ran = world.ingest(&["--region", "US"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let served = Served::over(world);
    let pass = served.get("/pass?id=1").text();
    let (_, link) = pass.split_once("<a href=\"/history?").unwrap();
    let (link, _) = link.split_once('"').unwrap();
    let passes = served.get(&format!("/history?{}", link.replace("&amp;", "&")));
    assert_eq!(passes.status, 200);
    assert!(passes.text().contains("href=\"/pass?id=1\""), "{link}");
}

#[test]
fn a_region_that_a_limit_stopped_before_its_first_page_is_no_failure() {
    let world = World::new();
    world.faults(&serde_json::json!([{"answer": "spent"}]));
    let report = world.json(&["--region", "US", "--job", "trending"]);
    let pass = &report["passes"][0];
    assert_eq!(
        (&pass["outcome"], &pass["requests"]),
        (&"stopped".into(), &1.into()),
        "{report}"
    );
    // The page escapes what follows.
    let (why, _) = pass["detail"].as_str().unwrap().split_once('(').unwrap();
    let served = Served::over(world);
    let overview = served.get("/").text();
    assert!(overview.contains("Nothing failed"), "{overview}");
    for path in ["/history?job=trending&region=US", "/pass?id=1"] {
        let page = served.get(path).text();
        assert!(
            page.contains("no page") && page.contains(why),
            "{path}: {page}"
        );
        assert!(!page.contains("failed"), "{path}: {page}");
    }
}

#[test]
fn names_of_a_plan_may_have_spaces_between_them() {
    let served = Served::new(&[MANY]);
    let spaced = served.get("/api/v1/plan?region=US,%20GB&job=trending");
    assert_eq!(spaced.status, 200, "{}", spaced.text());
    assert_eq!(
        spaced.json()["steps"],
        served.get("/api/v1/plan?region=US,GB&job=trending").json()["steps"]
    );
}

#[test]
fn a_limit_leads_to_its_charges_and_a_region_and_a_charge_to_their_passes() {
    let served = Served::after_a_run(&[MANY]);
    let overview = served.get("/").text();
    for link in [
        "href=\"/limit?account=youtube&amp;limit=daily\"",
        "href=\"/history?job=trending&amp;region=US\"",
    ] {
        assert!(overview.contains(link), "{link}: {overview}");
    }
    let limits = served.world.json(&["status"])["limits"].clone();
    let limits = limits.as_array().unwrap();
    let daily = limits.iter().find(|one| one["limit"] == "daily").unwrap();
    let page = served.get("/limit?account=youtube&limit=daily").text();
    assert!(
        page.contains("href=\"/history?job=trending&amp;region=GB\""),
        "{page}"
    );
    let units = page.split("data-head=\"Units\"><span>").skip(1);
    let units = units.map(|cell| cell.split('<').next().unwrap().parse::<u64>().unwrap());
    let units: Vec<u64> = units.collect();
    assert_eq!(daily["used"], units.iter().sum::<u64>(), "{page}");
    let said = format!("by {} charges", units.len());
    assert!(page.contains(&said), "{said}: {page}");
    assert_eq!(served.get("/limit?account=youtube&limit=dayly").status, 404);
    assert_eq!(served.get("/limit?account=youtube").status, 400);
}

#[test]
fn the_records_of_a_kind_are_counted_sorted_by_a_column_and_lead_to_csv_and_ndjson() {
    let served = Served::after_a_run(&[MANY, "serve.query_timeout=30s"]);
    let path = "/records?kind=channel&sort=view_count&order=descending&limit=1000";
    let page = served.get(path).text();
    let cells = page.split("data-head=\"view_count\"><span>").skip(1);
    let views: Vec<u64> = cells
        .map(|cell| cell.split('<').next().unwrap().parse().unwrap())
        .collect();
    assert!(
        views.len() > 10 && views.is_sorted_by(|one, next| one >= next),
        "{views:?}"
    );
    let api = "/api/v1/records/channel?as=";
    for (shape, extension) in [
        ("csv", "text/csv; charset=utf-8"),
        ("ndjson", "application/x-ndjson"),
    ] {
        assert!(
            page.contains(&format!("href=\"{api}{shape}&amp;limit=1000")),
            "{shape}: {page}"
        );
        let all = served.get(&format!("{api}{shape}&limit=1000"));
        assert_eq!(all.header("content-type"), Some(extension));
        let exported = served
            .world
            .ingest(&["export", "--kind", "channel", "--as", shape]);
        assert_eq!(all.text(), exported.stdout);
    }
    let all = served.get("/api/v1/records/channel?limit=1000").text();
    assert!(
        page.contains(&format!("<h2>{} records</h2>", all.lines().count())),
        "{page}"
    );
    let passes = served.get("/history?job=trending&region=US").text();
    let pass = served.get(&first_pass(&passes)).text();
    let links = pass.split("href=\"/records?").skip(1);
    let links: Vec<&str> = links.map(|link| link.split('"').next().unwrap()).collect();
    // A request for the channels serves several regions at once.
    assert!(
        links.len() == 2 && links[0].starts_with("kind=channel&amp;seen"),
        "{links:?}"
    );
    assert!(
        links[1].starts_with("kind=video&amp;region=US&amp;"),
        "{links:?}"
    );
    for link in links {
        let listed = served.get(&format!("/records?{}", link.replace("&amp;", "&")));
        assert!(listed.text().contains("data-head=\"Record\""), "{link}");
    }
    for (wrong, said) in [
        ("kind=channl", "did you mean"),
        ("kind=channel&sort=views", "its columns are"),
    ] {
        let page = served.get(&format!("/records?{wrong}"));
        assert!(
            page.status == 400 && page.text().contains(said),
            "{wrong}: {}",
            page.text()
        );
    }
    assert!(served.get("/records").text().contains("Choose a kind"));
    assert_eq!(served.get("/api/v1/records/channel?as=xml").status, 400);
    let catalog = served.world.catalog();
    catalog
        .execute_batch(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1500)
            insert into record (upstream, kind, id, first_seen, last_seen, body)
            select upstream, kind, 'copy' || i, first_seen, last_seen, body
            from n, (select * from record where kind = 'channel' limit 1)",
        )
        .unwrap();
    let page = served.get("/records?kind=channel&sort=view_count").text();
    for said in [
        "More than 1,000 records",
        "Only the 1,000 records of this page are sorted",
        "Show 900 more records",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let next = page
        .split("href=\"/records?")
        .find(|link| link.contains("cursor="))
        .unwrap();
    let next = next.split('"').next().unwrap().replace("&amp;", "&");
    assert!(
        served
            .get(&format!("/records?{next}"))
            .text()
            .contains(" records of more")
    );
}

#[test]
fn a_chart_has_values_and_says_what_a_column_means_for_a_day_and_for_ten_minutes() {
    let served = Served::after_a_run(&[MANY, "serve.query_timeout=30s"]);
    let page = served.get("/").text();
    let charts: Vec<&str> = page.split("<section class=\"limit\">").skip(1).collect();
    let of = |limit: &str| charts.iter().find(|chart| chart.contains(limit)).unwrap();
    let daily = of(">youtube/daily<");
    for said in [
        "counted at the end of each",
        "<span>9,500</span><span>4,750</span><span>0</span>",
        "<title>now: ",
        "11 h ago",
        "enforced 9,500",
    ] {
        assert!(daily.contains(said), "{said}: {daily}");
    }
    let burst = of(">youtube/search_burst<");
    assert!(
        burst.contains("the limit counts those of 10m at once"),
        "{burst}"
    );
    assert!(!burst.contains("enforced"), "{burst}");
    let plan = served
        .get("/plan?region=US&schedule=daily&days=2&job=trending")
        .text();
    for said in [
        "<svg class=\"day\"",
        "hour by hour",
        ": used ",
        "enforced 9,500",
        " runs until ",
    ] {
        assert!(plan.contains(said), "{said}: {plan}");
    }
    let long = served
        .get("/plan?region=US&schedule=0+0+*+*+*&days=20&job=trending")
        .text();
    let columns = long.split("<svg class=\"day\"").nth(1).unwrap();
    let columns = columns
        .split("</svg>")
        .next()
        .unwrap()
        .matches("<g>")
        .count();
    assert!((10..=120).contains(&columns), "{columns}");
}
