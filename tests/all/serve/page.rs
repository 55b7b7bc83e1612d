//! The page: every view without scripts, whatever upstreams write.

use super::Served;
use crate::support::world::World;

const MANY: &str = "serve.readers={ quota = 100_000, window = \"1min\" }";

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
    let found = served.get("/search?q=zzyzx").text();
    assert!(found.contains("1 record"), "{found}");
    let record = "/record?kind=video&id=%3Cb%3Eevil%3C%2Fb%3E";
    let record = served.get(record).text();
    assert!(record.contains("rel=\"noreferrer\""), "{record}");
    let listed = served.get("/search?kind=video&limit=1").text();
    for text in [found, record, listed] {
        assert!(text.contains("zzyzx"), "{text}");
        for forbidden in ["<script", "<img", "<b>", "href=\"javascript", "\u{202e}"] {
            assert!(!text.contains(forbidden), "{forbidden}: {text}");
        }
    }
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
fn a_limit_leads_to_its_passes_and_a_pass_to_its_records() {
    let served = Served::after_a_run(&[MANY]);
    let overview = served.get("/").text();
    for link in [
        "href=\"/history?account=youtube&amp;limit=daily\"",
        "href=\"/history?job=trending&amp;region=US\"",
    ] {
        assert!(overview.contains(link), "{link}: {overview}");
    }
    let rows = |path: &str| {
        let page = served.get(path).text();
        let (_, passes) = page
            .split_once("id=\"passes\"")
            .unwrap_or_else(|| panic!("{page}"));
        let (passes, _) = passes.split_once("</table>").unwrap();
        passes.matches("<tr").count() - 1
    };
    let all = served.world.catalog().query_row(
        "select count(*), count(*) filter (where units like '%\"search\"%') from pass",
        [],
        |row| Ok((row.get::<_, u16>(0)?.into(), row.get::<_, u16>(1)?.into())),
    );
    let (all, searches): (usize, usize) = all.unwrap();
    assert!(searches < all, "{searches} of {all}");
    assert_eq!(rows("/history?account=youtube&limit=daily"), all);
    assert_eq!(rows("/history?account=youtube&limit=search"), searches);
    let passes = served.get("/history?job=trending&region=US").text();
    let links = passes.split("href=\"/search?").skip(1);
    let links: Vec<&str> = links.map(|link| link.split('"').next().unwrap()).collect();
    // A request for the channels serves several regions at once.
    assert!(
        links.len() == 2 && links[0].starts_with("kind=channel&amp;since"),
        "{links:?}"
    );
    assert!(
        links[1].starts_with("kind=video&amp;region=US&amp;"),
        "{links:?}"
    );
    for link in links {
        let listed = served.get(&format!("/search?{}", link.replace("&amp;", "&")));
        assert!(listed.text().contains("data-head=\"Record\""), "{link}");
    }
}

#[test]
fn a_hit_leads_to_its_record_although_its_kind_left_the_configuration() {
    let mut world = World::configured(&[MANY, "serve.query_timeout=30s"], |_| {});
    assert_eq!(world.ingest(&["--region", "US"]).code, 0);
    world.set(r#"upstreams.youtube.calls."videos.list".records.kind="clip""#);
    let served = Served::over(world);
    let hits = served.get("/search?q=puppy").text();
    let mut links = hits
        .split("href=\"")
        .filter_map(|link| link.split('"').next());
    let link = links.find(|link| link.contains("kind=video")).unwrap();
    let record = served.get(&link.replace("&amp;", "&"));
    assert_eq!(record.status, 200, "{link}: {}", record.text());
    assert_eq!(served.get("/record?kind=vidoe&id=1").status, 400);
}

#[test]
fn the_records_of_a_kind_are_listed_page_by_page_and_lead_to_csv_and_ndjson() {
    let served = Served::after_a_run(&[MANY, "serve.query_timeout=30s"]);
    let page = served.get("/search?kind=channel&limit=10").text();
    assert_eq!(page.matches("data-head=\"Record\"").count(), 10, "{page}");
    let (_, next) = page
        .split_once("href=\"/search?kind=channel&amp;limit=10&amp;cursor=")
        .unwrap();
    let (cursor, _) = next.split_once('"').unwrap();
    let next = served
        .get(&format!("/search?kind=channel&limit=10&cursor={cursor}"))
        .text();
    assert_eq!(next.matches("data-head=\"Record\"").count(), 10, "{next}");
    let record = |page: &str| page.split("href=\"/record?").nth(1).unwrap().to_owned();
    assert_ne!(record(&page), record(&next));
    for shape in ["csv", "ndjson"] {
        let link = format!("href=\"/api/v1/records/channel?as={shape}\"");
        assert!(page.contains(&link), "{link}: {page}");
    }
    let wrong = served.get("/search?kind=channl");
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("did you mean"), "{}", wrong.text());
    let hint = served.get("/search").text();
    assert!(hint.contains("href=\"/search?kind=channel\""), "{hint}");
    for gone in [
        "/limit?account=youtube&limit=daily",
        "/records?kind=video",
        "/pass?id=1",
    ] {
        assert_eq!(served.get(gone).status, 404, "{gone}");
    }
}

#[test]
fn what_failed_last_stands_first_each_cause_once_with_its_regions_and_batches_apart() {
    let world = World::new();
    let elsewhere = "upstreams.youtube.calls.\"channels.list\".path=nowhere";
    let ran = world.ingest(&["--region", "all", "--job", "trending", "--set", elsewhere]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let served = Served::over(world);
    let page = served.get("/").text();
    assert!(page.contains("<header><strong>ingest</strong>"), "{page}");
    assert!(
        page.contains(">8 regions failed<") && page.contains(">batches of 1 job failed<"),
        "{page}"
    );
    assert!(
        !page.contains(">9 regions") && !page.contains("9 failed"),
        "{page}"
    );
    let named = ">trending 8 regions: US, GB, …, CA, and batches of ids<";
    assert_eq!(page.matches(named).count(), 1, "{page}");
    let places = [named, ">youtube/daily<", "id=\"regions\""].map(|text| page.find(text));
    assert!(
        places.is_sorted() && places[0].is_some(),
        "{places:?}: {page}"
    );
    // A limit is a line: its name, its bar, its figures.
    let (_, limit) = page.split_once("<section class=\"limit\">").unwrap();
    let (line, _) = limit.split_once("</p>").unwrap();
    assert!(
        line.contains("<svg class=\"bar\"") && line.contains(" left of 9,500"),
        "{line}"
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
        "units in a window",
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
