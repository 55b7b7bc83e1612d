//! PubMed: a search that returns ids only, and articles in XML.

use serde_json::json;

use super::{Answer, Recipe, Then, Units, number, span};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "pubmed",
    instead: &[("https://eutils.ncbi.nlm.nih.gov", "{stub}")],
    secret: ("NCBI_KEY", "key0123456789"),
    credential: "pubmed",
    windows: &["pace"],
    limit: "pace",
    tries: &[("esearch", None), ("efetch", Some("38000001"))],
    records: &[
        ("pubmed_found", TOTAL as i64),
        ("pubmed_article", TOTAL as i64),
    ],
    answer,
    refuse,
    then: Then::Retries,
};

const TOTAL: usize = 2_300;

fn article(id: &str) -> String {
    let title = match id.ends_with('7') {
        true => "On <i>genes</i>.",
        false => "On genes.",
    };
    format!(
        "<PubmedArticle><MedlineCitation Status=\"MEDLINE\" Owner=\"NLM\"><PMID Version=\"1\">{id}</PMID>\
        <Article PubModel=\"Print\"><Journal><JournalIssue CitedMedium=\"Internet\"><PubDate><Year>2025</Year></PubDate></JournalIssue>\
        <Title>A journal</Title></Journal><ArticleTitle>{title}</ArticleTitle>\
        <Abstract><AbstractText>Words.</AbstractText></Abstract><Language>eng</Language></Article></MedlineCitation>\
        <PubmedData><PublicationStatus>ppublish</PublicationStatus></PubmedData></PubmedArticle>"
    )
}

fn answer(request: &StubRequest, _: &Units) -> Answer {
    assert_eq!(
        (request.param("db"), request.param("api_key")),
        (Some("pubmed"), Some("key0123456789"))
    );
    let response = match request.path.as_str() {
        "/entrez/eutils/esearch.fcgi" => {
            assert_eq!(request.param("mindate"), Some("2024/12/29"));
            let start = number(request.param("retstart"));
            let (span, _) = span(start, number(request.param("retmax")), TOTAL);
            let ids: Vec<String> = span.map(|at| (38_000_000 + at).to_string()).collect();
            StubAnswer::json(&json!({
                "header": { "type": "esearch", "version": "0.3" },
                "esearchresult": { "count": TOTAL.to_string(), "retmax": ids.len().to_string(), "retstart": start.to_string(),
                    "idlist": ids, "translationset": [], "querytranslation": "crispr[title]" },
            }))
        }
        "/entrez/eutils/efetch.fcgi" => {
            let ids = request.param("id").unwrap().split(',');
            let articles: String = ids.map(article).collect();
            let body = format!(
                "<?xml version=\"1.0\" ?>\n<!DOCTYPE PubmedArticleSet PUBLIC \"-//NLM//DTD PubMedArticle, 1st January 2025//EN\" \
                \"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd\">\n<PubmedArticleSet>{articles}</PubmedArticleSet>"
            );
            StubAnswer::text(200, &body).header("content-type", "text/xml; charset=UTF-8")
        }
        other => panic!("{other}"),
    };
    Answer::one(response, &["pace"])
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "error": "API rate limit exceeded", "api-key": "key0123456789", "count": "11", "limit": "10" });
    Answer::one(StubAnswer::error(429, &body), &["pace"])
}
