use std::sync::Arc;

use ingest_catalog::{Landing, RANKED, SearchHit, SearchQuery};
use serde_json::json;

use super::super::fixture::{Page, at, record, records_of, video};
use super::Catalog;

fn words(words: &str) -> SearchQuery {
    SearchQuery {
        words: words.to_owned(),
        kind: None,
        region: None,
        since: None,
        limit: 20,
    }
}

async fn search(f: &Catalog, query: SearchQuery) -> Vec<SearchHit> {
    f.archive().search(query).await.unwrap().hits
}

async fn found(f: &Catalog, text: &str) -> Vec<String> {
    let mut ids: Vec<String> = search(f, words(text))
        .await
        .into_iter()
        .map(|hit| hit.id)
        .collect();
    ids.sort();
    ids
}

pub(crate) async fn a_hit_is_the_whole_record_with_its_times_and_the_found_words_marked(
    f: Catalog,
) {
    let body = json!({"snippet": {"title": "Deep sea", "description": "Creatures of the deep"}});
    f.land(&Page::of(vec![record("a", body.clone())])).await;
    f.land(&Page::of(vec![record("a", body.clone())]).now(at(9)))
        .await;
    let excerpt = "\u{E000}Deep\u{E001} sea\nCreatures of the \u{E000}deep\u{E001}".to_owned();
    let (upstream, kind, id) = ("youtube".into(), "video".into(), "a".into());
    let hit = SearchHit {
        upstream,
        kind,
        id,
        excerpt,
        body,
        first_seen: at(0),
        last_seen: at(9),
        gone_at: None,
    };
    assert_eq!(search(&f, words("deep")).await, [hit]);
}

pub(crate) async fn a_hit_says_since_when_a_record_is_gone(f: Catalog) {
    let page = Page::of(vec![video("a", "Deep sea"), video("b", "Deep blue")]);
    f.land(&page).await;
    let removal = Landing {
        removed: vec!["a".to_owned()],
        ..Page::of(Vec::new()).now(at(9)).landing()
    };
    f.store.land(Arc::new(removal)).await.unwrap();
    let hits = search(&f, words("deep")).await.into_iter();
    let mut gone: Vec<_> = hits.map(|hit| (hit.id, hit.gone_at)).collect();
    gone.sort();
    assert_eq!(gone, [("a".into(), Some(at(9))), ("b".into(), None)]);
}

pub(crate) async fn all_words_must_be_there_whatever_their_case_and_accents(f: Catalog) {
    f.land(&Page::of(vec![
        video("a", "Crème brûlée RECIPE"),
        video("b", "Cream recipe"),
        video("c", "Cre\u{301}me"),
    ]))
    .await;
    assert_eq!(found(&f, "recipe").await, ["a", "b"]);
    assert_eq!(found(&f, "CREME recipe").await, ["a"]);
    assert_eq!(found(&f, "crème").await, ["a", "c"]);
    assert_eq!(found(&f, "creme nothing").await, [""; 0]);
}

pub(crate) async fn titles_in_any_script_are_found_by_a_word_of_theirs(f: Catalog) {
    let titles = [
        ("ja", "東京の天気予報とニュース"),
        ("zh", "北京天气预报"),
        ("th", "พยากรณ์อากาศกรุงเทพวันนี้"),
        ("ko", "서울의 날씨가 좋다"),
        ("ar", "أخبار الطقس في القاهرة اليوم"),
        ("hi", "आज का मौसम समाचार हिन्दी में"),
        ("ru", "Погода в Москве сегодня"),
        ("km", "អាកាសធាតុថ្ងៃនេះ"),
    ];
    f.land(&Page::of(
        titles.iter().map(|(id, title)| video(id, title)).collect(),
    ))
    .await;
    let asked = [
        ("天気", "ja"),
        ("ニュース", "ja"),
        ("京の天", "ja"),
        ("東京 ニュース", "ja"),
        ("天气", "zh"),
        ("อากาศ", "th"),
        ("날씨", "ko"),
        ("서울", "ko"),
        ("الطقس", "ar"),
        ("القاهرة أخبار", "ar"),
        ("मौसम", "hi"),
        ("हिन्दी", "hi"),
        ("москве", "ru"),
        ("ПОГОДА", "ru"),
        ("ធាតុ", "km"),
    ];
    for (word, id) in asked {
        assert_eq!(found(&f, word).await, [id], "{word}");
    }
    assert_eq!(
        found(&f, "東気").await,
        [""; 0],
        "characters that do not follow each other are no word"
    );
    assert_eq!(
        found(&f, "ह न").await,
        [""; 0],
        "vowel signs belong to their word"
    );
}

pub(crate) async fn the_excerpt_of_an_unspaced_script_reads_as_the_title_does(f: Catalog) {
    f.land(&Page::of(vec![video("a", "iPhone15の天気アプリ")]))
        .await;
    assert_eq!(
        search(&f, words("天気")).await[0].excerpt,
        "iPhone15の\u{E000}天気\u{E001}アプリ"
    );
}

pub(crate) async fn a_long_text_is_cut_around_the_found_words(f: Catalog) {
    let title = format!("{} needle {}", "hay ".repeat(500), "straw ".repeat(500));
    f.land(&Page::of(vec![video("a", &title)])).await;
    let excerpt = search(&f, words("needle")).await.remove(0).excerpt;
    assert!(
        excerpt.contains("\u{E000}needle\u{E001}") && excerpt.len() < 400,
        "{excerpt}"
    );
}

pub(crate) async fn the_record_that_is_more_about_the_words_comes_first(f: Catalog) {
    let long = format!("cats and {}", "many other things ".repeat(50));
    f.land(&Page::of(vec![
        video("long", &long),
        video("short", "cats"),
        video("none", "dogs"),
    ]))
    .await;
    let ids: Vec<String> = search(&f, words("cats"))
        .await
        .into_iter()
        .map(|hit| hit.id)
        .collect();
    assert_eq!(ids, ["short", "long"]);
    assert_eq!(
        search(
            &f,
            SearchQuery {
                limit: 1,
                ..words("cats")
            }
        )
        .await
        .len(),
        1
    );
    assert_eq!(
        search(
            &f,
            SearchQuery {
                limit: 0,
                ..words("cats")
            }
        )
        .await
        .len(),
        0
    );
}

pub(crate) async fn hits_can_be_held_to_a_kind_a_region_and_a_time(f: Catalog) {
    f.land(&Page::of(vec![video("us", "fox"), video("both", "fox")]).over("US", at(0)))
        .await;
    f.land(
        &Page::of(vec![video("both", "fox"), video("gb", "fox")])
            .over("GB", at(0))
            .now(at(5)),
    )
    .await;
    let channels = records_of("channel", &["/snippet/title"], &[]);
    f.land(&Page {
        kind: channels,
        ..Page::of(vec![video("us", "fox")]).over("*", at(0))
    })
    .await;
    let ids = async |query| {
        let mut ids: Vec<_> = search(&f, query)
            .await
            .into_iter()
            .map(|hit| format!("{} {}", hit.kind, hit.id))
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(
        ids(words("fox")).await,
        ["channel us", "video both", "video gb", "video us"]
    );
    assert_eq!(
        ids(SearchQuery {
            kind: Some("channel".into()),
            ..words("fox")
        })
        .await,
        ["channel us"]
    );
    assert_eq!(
        ids(SearchQuery {
            region: Some("US".into()),
            ..words("fox")
        })
        .await,
        ["video both", "video us"]
    );
    assert_eq!(
        ids(SearchQuery {
            since: Some(at(5)),
            ..words("fox")
        })
        .await,
        ["video both", "video gb"]
    );
    let all = SearchQuery {
        kind: Some("video".into()),
        region: Some("US".into()),
        since: Some(at(5)),
        ..words("fox")
    };
    assert_eq!(ids(all).await, ["video both"]);
}

pub(crate) async fn the_index_follows_a_text_that_changes_comes_and_goes(f: Catalog) {
    for (title, gone) in [
        ("first title", "nothing"),
        ("second title", "first"),
        ("", "second"),
        ("third", "title"),
    ] {
        f.land(&Page::of(vec![video("a", title)])).await;
        if let Some(word) = title.split(' ').next().filter(|word| !word.is_empty()) {
            assert_eq!(found(&f, word).await, ["a"]);
        }
        assert_eq!(found(&f, gone).await, [""; 0]);
    }
}

pub(crate) async fn the_index_follows_the_configured_fields(f: Catalog) {
    let body = json!({"title": "alpha", "notes": "beta"});
    let page = Page {
        kind: records_of("note", &["/title"], &[]),
        ..Page::of(vec![record("n", body)])
    };
    f.land(&page).await;
    assert_eq!(found(&f, "beta").await, [""; 0]);
    f.land(&Page {
        kind: records_of("note", &["/notes"], &[]),
        ..page
    })
    .await;
    assert_eq!(
        (found(&f, "beta").await, found(&f, "alpha").await),
        (vec!["n".to_owned()], vec![])
    );
}

pub(crate) async fn query_syntax_in_the_words_is_words(f: Catalog) {
    f.land(&Page::of(vec![video(
        "a",
        "cats AND dogs, near (mice) \"quoted\" don't c++ a*b text:x",
    )]))
    .await;
    for asked in [
        "\"cats\"", "dogs AND", "(mice)", "\"quoted", "don't", "c++", "a*b", "text:x", "cats^2",
        "-dogs", "{mice}",
    ] {
        assert!(
            search(&f, words(asked))
                .await
                .iter()
                .all(|hit| hit.id == "a"),
            "{asked}"
        );
    }
    for asked in [
        "\"cats\"",
        "(mice)",
        "don't",
        "c++",
        "text:x",
        "NEAR cats",
        "cats AND dogs",
        "cats 🎉 \u{0}dogs",
    ] {
        assert_eq!(found(&f, asked).await, ["a"], "{asked}");
    }
    assert_eq!(found(&f, "cats OR birds").await, [""; 0]);
}

pub(crate) async fn no_words_find_nothing_and_odd_ones_are_no_error(f: Catalog) {
    f.land(&Page::of(vec![video("a", "x")])).await;
    let many = "x ".repeat(20_000);
    let long = "y".repeat(200_000);
    let odd = [
        "", "  \t\n", "\0", "\"", "\"\"", "''", "*", "🎉", "\u{FFFF}", "\u{301}", "\u{200B}",
        "NEAR(", "\u{E000}", "・", &long,
    ];
    for asked in odd {
        assert_eq!(found(&f, asked).await, [""; 0], "{asked:?}");
    }
    assert_eq!(found(&f, &many).await, ["a"]);
    let distinct: Vec<String> = (0..2_000).map(|n| format!("w{n}")).collect();
    f.land(&Page::of(vec![video("b", &distinct.join(" "))]))
        .await;
    assert_eq!(found(&f, &distinct.join(" ")).await, ["b"]);
}

pub(crate) async fn a_title_cannot_bring_marks_of_its_own(f: Catalog) {
    f.land(&Page::of(vec![video(
        "a",
        "\u{E000}fake\u{E001} \u{E000}real",
    )]))
    .await;
    assert_eq!(
        search(&f, words("real")).await[0].excerpt,
        "fake \u{E000}real\u{E001}"
    );
}

pub(crate) async fn of_a_record_that_is_twice_in_a_page_the_later_text_is_found(f: Catalog) {
    f.land(&Page::of(vec![
        video("a", "earlier"),
        video("b", "between"),
        video("a", "later"),
    ]))
    .await;
    assert_eq!(
        (found(&f, "earlier").await, found(&f, "later").await),
        (vec![], vec!["a".to_owned()])
    );
}

pub(crate) async fn of_a_very_long_text_the_beginning_is_found(f: Catalog) {
    let title = format!("first {} last", "é".repeat(40_000));
    f.land(&Page::of(vec![video("a", &title)])).await;
    assert_eq!(
        (found(&f, "first").await, found(&f, "last").await),
        (vec!["a".to_owned()], vec![])
    );
    assert_eq!(
        search(&f, words("first")).await[0].body["snippet"]["title"],
        title
    );
}

pub(crate) async fn a_star_stands_for_the_rest_of_a_word(f: Catalog) {
    f.land(&Page::of(vec![
        video("one", "a puppet and a Püppchen"),
        video("two", "puppies"),
        video("three", "pup"),
        video("four", "東京の天気"),
        video("five", "xylophone x"),
    ]))
    .await;
    assert_eq!(found(&f, "pupp*").await, ["one", "two"]);
    assert_eq!(found(&f, "PUP*").await, ["one", "three", "two"]);
    assert_eq!(found(&f, "puppe* and").await, ["one"]);
    assert_eq!(found(&f, "天気*").await, ["four"]);
    assert_eq!(found(&f, "puppet*").await, ["one"]);
    assert_eq!(found(&f, "kitt*").await, [""; 0]);
    assert_eq!(
        found(&f, "p*").await,
        ["one", "three", "two"],
        "of any length"
    );
    assert_eq!(found(&f, "天* 東*").await, ["four"]);
    assert_eq!(found(&f, "*").await, [""; 0]);
    assert_eq!(
        search(&f, words("pupp*")).await[0]
            .excerpt
            .matches('\u{E000}')
            .count(),
        1
    );
}

pub(crate) async fn of_a_word_in_very_many_records_the_newest_are_ranked_and_the_result_says_so(
    f: Catalog,
) {
    let title = |n: u32| match n {
        3 => "rare everywhere".to_owned(),
        10_900 => "everywhere".to_owned(),
        _ => format!("everywhere {} {n}", "and more ".repeat(3)),
    };
    for from in (0..11_000).step_by(500) {
        let page = (from..from + 500).map(|n| video(&format!("v{n}"), &title(n)));
        f.land(&Page::of(page.collect())).await;
    }
    let results = |query| async { f.archive().search(query).await.unwrap() };
    let everywhere = results(words("everywhere")).await;
    assert_eq!(everywhere.only_newest, Some(RANKED));
    assert_eq!(everywhere.hits.len(), 20);
    assert_eq!(everywhere.hits[0].id, "v10900", "the best of the newest");
    let rare = results(words("everywhere rare")).await;
    assert_eq!(rare.only_newest, None);
    assert_eq!(rare.hits[0].id, "v3");
    let elsewhere = results(SearchQuery {
        kind: Some("channel".into()),
        ..words("everywhere")
    });
    assert_eq!(elsewhere.await.hits, []);
}
