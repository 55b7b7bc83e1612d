//! The page in a real browser: by keyboard, on a phone, in the dark, without scripts, with whatever upstreams write.

use fantoccini::key::Key;
use serde_json::{Value, json};

use super::{CLIENT, Served, TOKEN};
use crate::support::browser::Browser;
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

const MANY: &str = "serve.readers={ quota = 100_000, window = \"1min\" }";
const PATIENT: &str = "serve.query_timeout=30s";
/// A title that tries everything.
const HOSTILE: &str = "<script>window.attacked = 1</script><img src=x onerror='window.attacked = 2'> \"'><b>bold \u{202e}desrever\u{2066} zzyzx";

/// A server whose page has something of everything: complete, unfinished and failed passes, a closed limit, long texts.
fn eventful() -> Served {
    let served = Served::after_a_run(&[MANY, PATIENT]);
    let catalog = served.world.catalog();
    let title = format!("{HOSTILE} {}", "averylongwordwithoutanyspace".repeat(40));
    let body = json!({ "id": "evil", "snippet": { "title": title, "channelId": "https://example.com/?a=1&b=2", "channelTitle": "javascript:alert(1)" } });
    let long = "x".repeat(300);
    catalog
        .execute_batch(&format!(
            "update record set body = '{}', text_hash = null where number = (select min(number) from record where kind = 'video');
            insert into pass (job, region, started_at, requests, left_at, failed, notes)
                select 'trending', 'DE', started_at, 3, started_at, 1, 'the upstream answers 500: <b>{long}</b>' from pass limit 1;",
            body.to_string().replace('\'', "''"),
        ))
        .unwrap();
    drop(catalog);
    assert_eq!(served.world.ingest(&["repair"]).code, 0);
    served
}

/// A server over a Redis, after a run.
fn over_redis(redis: &RedisServer) -> Served {
    let url = format!("ledger.url=\"redis://127.0.0.1:{}\"", redis.port());
    let world = World::configured(&[MANY, PATIENT, CLIENT, "ledger.timeout=1s", &url], |_| {});
    let ran = world.ingest(&["--region", "US", "--job", "trending"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    Served::over(world)
}

/// The parts of the first limit's bar, and what the page says of them.
fn bar(browser: &Browser) -> (Vec<String>, String) {
    let parts = browser.script(
        "const bar = document.querySelector('.limit .bar');
        const colours = [...bar.children].map(one => getComputedStyle(one).fill);
        const distinct = new Set(colours).size === colours.length;
        const legend = [...document.querySelectorAll('.legend i')].map(one => one.className);
        const named = [...bar.children].every(one => legend.includes(one.className.baseVal));
        return [[...bar.children].map(one => one.className.baseVal), distinct, named, bar.getAttribute('aria-label') + ' ' + document.querySelector('.limit').innerText]",
    );
    assert!(parts[1] == true && parts[2] == true, "{parts}");
    let classes = parts[0].as_array().unwrap().iter();
    let classes = classes.map(|one| one.as_str().unwrap().to_owned());
    (classes.collect(), parts[3].as_str().unwrap().to_owned())
}

#[test]
fn a_bar_shows_what_is_closed_unmetered_and_unknown() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let redis = RedisServer::start();
    let served = over_redis(&redis);
    let look = |name: &str, expected: &[&str], said: &[&str]| {
        for (width, scheme) in [(1000, "light"), (360, "dark")] {
            browser.colours(scheme);
            browser.screen(width, 900);
            browser.goto(&served.url("/"));
            let (parts, text) = bar(&browser);
            assert_eq!(parts, expected, "{name}: {text}");
            for said in said {
                assert!(text.contains(said), "{name} lacks {said:?}: {text}");
            }
            assert_fits(&browser, name);
            browser.screenshot(&format!("bar-{name}-{width}-{scheme}"));
            let rules = ["color-contrast", "svg-img-alt"];
            let violations = browser.violations(&rules);
            assert!(
                violations.as_ref().is_none_or(Vec::is_empty),
                "{violations:#?}"
            );
        }
    };
    redis.hang();
    let body = json!({ "credential": "youtube", "call": "videos.list", "times": 3 });
    let charged = served.post("/api/v1/charge", None, &body);
    assert_eq!(
        charged.json()["decision"],
        "unmetered",
        "{}",
        charged.text()
    );
    look(
        "unknown",
        &["unmetered", "unknown", "headroom"],
        &["3 unmetered", "the ledger cannot be reached"],
    );
    redis.resume();
    look(
        "unmetered",
        &["used", "unmetered", "free", "headroom"],
        &["3 units went unmetered"],
    );
    served
        .world
        .faults(&json!({ "answer": "spent", "times": 10 }));
    served
        .world
        .ingest(&["--region", "DE", "--job", "trending"]);
    look(
        "closed",
        &["used", "closed", "headroom"],
        &["closed by the upstream", "closed until"],
    );
    assert!(browser.console().is_empty());
}

/// A word of some record's title, as a query has it.
fn some_word(served: &Served) -> String {
    let records = served.get("/api/v1/records/video?limit=20").text();
    let titles = records.lines().map(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        record["body"]["snippet"]["title"]
            .as_str()
            .unwrap()
            .to_owned()
    });
    let words = titles.flat_map(|title| title.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let plain = |word: &String| word.len() > 4 && word.chars().all(|c| c.is_ascii_alphabetic());
    words
        .into_iter()
        .find(plain)
        .expect("a title in Latin script")
}

impl Served {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The address of the page of a record of this kind.
    fn record_path(&self, query: &str) -> String {
        let hit = &self.get(&format!("/api/v1/search?q={query}*")).json()["hits"][0];
        format!(
            "/record?kind={}&id={}",
            hit["kind"].as_str().unwrap(),
            hit["id"].as_str().unwrap()
        )
    }

    /// An address of each view, and of each way in which a view can look.
    fn views(&self) -> Vec<(&'static str, String)> {
        vec![
            ("overview", "/".to_owned()),
            ("limit", "/history?account=youtube&limit=daily".to_owned()),
            ("search", format!("/search?q={}", some_word(self))),
            ("records", "/search?kind=video".to_owned()),
            ("history", "/history".to_owned()),
            ("passes", "/history?job=trending&region=DE".to_owned()),
            ("plan", "/plan?region=US,DE".to_owned()),
            (
                "forecast",
                "/plan?region=US,DE&schedule=daily&days=2".to_owned(),
            ),
            ("hostile", "/search?q=zzyzx".to_owned()),
            ("record", self.record_path("zzyzx")),
            ("mistake", "/search?q=cat&kind=vidoe".to_owned()),
        ]
    }
}

/// What is wider than the screen.
fn sticking_out(browser: &Browser) -> Value {
    browser.script(
        "const root = document.documentElement;
        return [root.scrollWidth, root.clientWidth];",
    )
}

/// The cells of tables that only a scroll sideways would show, and captions with a letter or two on each line.
fn cells_out_of_sight(browser: &Browser) -> Value {
    browser.script(
        "const isNarrow = one => one.tagName === 'CAPTION' && one.getBoundingClientRect().width < 200;
        return [...document.querySelectorAll('td, caption')]
            .filter(one => one.getBoundingClientRect().right > innerWidth || isNarrow(one))
            .map(one => one.outerHTML.slice(0, 80))",
    )
}

fn assert_fits(browser: &Browser, what: &str) {
    let widths = sticking_out(browser);
    assert_eq!(widths[0], widths[1], "{what} scrolls sideways");
}

#[test]
fn every_view_fits_a_phone_and_a_desk_in_light_and_dark_and_breaks_no_rule_of_accessibility() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let served = eventful();
    for (name, path) in served.views() {
        browser.goto(&served.url(&path));
        for (width, height) in [(360, 740), (1280, 900)] {
            for scheme in ["light", "dark"] {
                browser.screen(width, height);
                browser.colours(scheme);
                let what = format!("{path} at {width} px in {scheme}");
                assert_fits(&browser, &what);
                browser.script("scrollTo(0, 0)");
                browser.screenshot(&format!("{name}-{width}-{scheme}"));
                if width == 360 {
                    assert_eq!(cells_out_of_sight(&browser), json!([]), "{what}");
                }
                browser.script(
                    "scrollTo(0, (document.documentElement.scrollHeight - innerHeight) / 2)",
                );
                browser.screenshot(&format!("{name}-middle-{width}-{scheme}"));
                // In the dark only the colours are others.
                let rules = (scheme == "dark").then_some(["color-contrast", "link-in-text-block"]);
                let violations = browser.violations(rules.as_ref().map_or(&[], |rules| &rules[..]));
                assert!(
                    violations.as_ref().is_none_or(Vec::is_empty),
                    "{what}: {violations:#?}"
                );
            }
        }
        let console = browser.console();
        let is_expected = |line: &String| name == "mistake" && line.contains("400 (Bad Request)");
        assert!(console.iter().all(is_expected), "{path}: {console:#?}");
    }
}

/// What has the focus: its tag, and its name or address.
fn focused(browser: &Browser) -> String {
    let name = browser.script(
        "const one = document.activeElement;
        return one === document.body ? '' : one.tagName + ' ' + (one.name || one.getAttribute('href') || one.getAttribute('aria-label') || one.textContent)",
    );
    name.as_str().unwrap().to_owned()
}

#[test]
fn the_keyboard_alone_reaches_everything_in_order_sees_where_it_is_and_submits() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let served = Served::after_a_run(&[MANY, PATIENT]);
    let word = some_word(&served);
    browser.screen(1280, 900);
    browser.goto(&served.url("/search"));
    browser.press(&[], Key::Tab);
    assert_eq!(
        focused(&browser),
        "A #content",
        "the first stop skips the navigation"
    );
    let place = browser.script("const box = document.activeElement.getBoundingClientRect(); return [box.left, box.top, box.width]");
    assert!(
        place[0].as_f64().unwrap() >= 0.0 && place[1].as_f64().unwrap() >= 0.0,
        "{place}"
    );
    browser.press(&[], Key::Enter);
    browser.press(&[], Key::Tab);
    assert_eq!(
        focused(&browser),
        "INPUT q",
        "the skip link leads to the content"
    );
    browser.type_in(&word);
    browser.press(&[], Key::Tab);
    assert_eq!(focused(&browser), "SELECT kind");
    browser.type_in("video");
    browser.press(&[], Key::Tab);
    assert_eq!(focused(&browser), "SELECT region");
    browser.press(&[], Key::Tab);
    assert_eq!(focused(&browser), "INPUT since");
    browser.type_in("7d");
    browser.press(&[], Key::Enter);
    let found = |browser: &Browser| browser.address().query().unwrap_or_default().contains("q=");
    ingest_testing::redis_server::wait_until("the form was submitted", || found(&browser));
    let query = browser.address().query().unwrap().to_owned();
    assert!(
        query.contains(&format!("q={word}")) && query.contains("kind=video"),
        "{query}"
    );

    let order = browser.script(
        "return [...document.querySelectorAll('a[href], input:not([type=hidden]), select, button, summary, [tabindex=\"0\"]')]
            .filter(one => !one.closest('details:not([open])') || one.tagName === 'SUMMARY').length",
    );
    let order = order.as_u64().unwrap();
    browser.script("document.activeElement.blur(); window.scrollTo(0, 0)");
    browser.goto(browser.address().as_ref());
    let mut tops = Vec::new();
    for _ in 0..order {
        browser.press(&[], Key::Tab);
        let state = browser.script(
            "const one = document.activeElement, style = getComputedStyle(one);
            const all = [...document.querySelectorAll('*')];
            const box = one.getBoundingClientRect();
            return [all.indexOf(one), style.outlineStyle, parseFloat(style.outlineWidth), box.bottom > 0 && box.top < innerHeight, one.tagName]",
        );
        assert!(
            state[1] != "none" && state[2].as_f64().unwrap() >= 2.0,
            "no focus is seen: {state}"
        );
        assert_eq!(state[3], true, "out of sight: {state}");
        tops.push(state[0].as_u64().unwrap());
    }
    assert!(
        tops.is_sorted(),
        "the focus goes from top to bottom: {tops:?}"
    );
    let mut once = tops.clone();
    once.dedup();
    assert_eq!(
        once.len(),
        tops.len(),
        "each stop is reached once: {tops:?}"
    );

    browser.press(&[Key::Shift], Key::Tab);
    assert!(focused(&browser).starts_with('A'), "{}", focused(&browser));
    assert!(browser.console().is_empty());
}

#[test]
fn ten_thousand_hits_are_a_page_that_leads_on_to_more() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let served = Served::new(&[MANY, PATIENT]);
    assert_eq!(
        served
            .world
            .ingest(&["--region", "US", "--job", "trending"])
            .code,
        0
    );
    let catalog = served.world.catalog();
    catalog
        .execute_batch(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 10001)
            insert into record (upstream, kind, id, first_seen, last_seen, body)
            select upstream, kind, 'copy' || i, first_seen, last_seen, '{\"id\":\"copy' || i || '\",\"snippet\":{\"title\":\"commonplace ' || i || '\"}}'
            from n, (select * from record where kind = 'video' limit 1)",
        )
        .unwrap();
    drop(catalog);
    assert_eq!(served.world.ingest(&["repair"]).code, 0);
    browser.screen(360, 740);
    browser.goto(&served.url("/search?q=commonplace"));
    for hits in [20, 100, 500, 1000] {
        let shown = browser.script("return [document.querySelectorAll('article').length, document.querySelector('h2').textContent, document.querySelector('main').textContent.includes('the newest 10,000')]");
        let many = if hits == 1000 {
            "1,000".to_owned()
        } else {
            hits.to_string()
        };
        assert_eq!(
            shown,
            json!([hits, format!("The best {many} records"), true])
        );
        assert_fits(&browser, &format!("{hits} hits"));
        let more = browser.script("const more = [...document.querySelectorAll('a')].find(one => one.textContent === 'Show more'); if (more) more.click(); return !!more");
        assert_eq!(more, hits < 1000);
        let is_next =
            || browser.script("return document.querySelectorAll('article').length") != hits;
        if hits < 1000 {
            ingest_testing::redis_server::wait_until("there are more", is_next);
        }
    }
    assert!(browser.console().is_empty());
}

#[test]
fn a_browser_shows_the_page_beyond_loopback_with_a_token_as_its_password() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let served = Served::beyond_loopback(&[MANY, CLIENT]);
    browser.goto(&format!("http://somebody:{TOKEN}@{}/", served.address));
    let shown = browser.script("return [document.querySelector('h1').textContent, getComputedStyle(document.querySelector('nav ul')).listStyleType]");
    assert_eq!(shown, json!(["Overview", "none"]), "the style sheet too");
    let leaked = browser.script("return document.documentElement.outerHTML");
    assert!(!leaked.as_str().unwrap().contains(TOKEN));
    browser.goto(&served.url("/history"));
    assert_eq!(
        browser.script("return document.querySelector('h1').textContent"),
        "History",
        "the browser presents it again by itself"
    );
    assert!(browser.console().is_empty());
    drop(browser);
    let browser = Browser::start().unwrap();
    browser.goto(&format!("http://somebody:wrong@{}/", served.address));
    assert!(
        !browser.source().contains("<h1>Overview"),
        "{}",
        browser.source()
    );
}
