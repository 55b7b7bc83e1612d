//! What every page has around what it shows: errors for browsers, and the footer.

use super::{CLIENT, Served, TOKEN};

const BROWSER: [&str; 1] = ["Accept: text/html,application/xhtml+xml,*/*;q=0.8"];
const PAGE: Option<&str> = Some("text/html; charset=utf-8");

/// The addresses that a browser loads by itself beside this page.
fn beside(page: &str) -> Vec<String> {
    let links = page.split("<link rel=").skip(1);
    let addresses = links.filter_map(|link| link.split("href=\"").nth(1)?.split('"').next());
    addresses.map(str::to_owned).collect()
}

#[test]
fn a_browser_sees_errors_as_pages_and_loads_style_and_icon_beyond_its_limit() {
    let served = Served::new(&["serve.readers={ quota = 3, window = \"1h\" }"]);
    let browse = |path: &str| served.send(&format!("GET {path}"), &BROWSER, "");
    let missing = browse("/nothing");
    assert_eq!(
        (missing.status, missing.header("content-type")),
        (404, PAGE)
    );
    assert!(
        missing.text().contains("<h1>Not Found"),
        "{}",
        missing.text()
    );
    let program = served.get("/nothing");
    let problem = Some("application/problem+json");
    assert_eq!(
        (program.status, program.header("content-type")),
        (404, problem)
    );
    assert_eq!(program.json()["status"], 404);

    let page = browse("/search");
    assert_eq!(page.status, 200);
    let loaded = beside(&page.text());
    assert_eq!(loaded.len(), 2, "{loaded:?}");
    for _ in 0..2 {
        for path in loaded.iter().map(String::as_str).chain(["/favicon.ico"]) {
            let answer = served.get(path);
            assert_eq!(answer.status, 200, "{path}");
            let left = answer.header("ratelimit").unwrap();
            assert!(left.starts_with("\"readers\";r=0;"), "{path}: {left}");
        }
    }
    let rejected = browse("/search");
    assert_eq!(
        (rejected.status, rejected.header("content-type")),
        (429, PAGE)
    );
    assert!(rejected.text().contains("has sent 3 requests within 1h"));
    let retry_after = rejected.header("retry-after").unwrap();
    assert!(retry_after.parse::<u64>().unwrap() > 30);
    assert_eq!(served.get("/history").header("content-type"), problem);
}

#[test]
fn who_has_no_token_sees_nothing_of_the_state_and_guesses_at_the_style_sheet_count() {
    let readers = "serve.readers={ quota = 3, window = \"1h\" }";
    let served = Served::beyond_loopback(&[readers, CLIENT]);
    let token = format!("Authorization: Bearer {TOKEN}");
    let page = served.send("GET /search", &[&token], "").text();
    let state = served.world.state_dir().display().to_string();
    assert!(page.contains(&state), "{page}");
    let style = beside(&page)[0].clone();
    let statuses = [0; 4].map(|_| {
        let wrong = [BROWSER[0], "Authorization: Bearer guessed"];
        let answer = served.send(&format!("GET {style}"), &wrong, "");
        assert_eq!(answer.header("content-type"), PAGE);
        assert!(!answer.text().contains(&state), "{}", answer.text());
        (answer.status, answer.header("www-authenticate").is_some())
    });
    assert_eq!(
        statuses,
        [(401, true), (401, true), (401, true), (429, false)]
    );
}
