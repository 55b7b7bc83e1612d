//! Words to look for.

use std::sync::OnceLock;

use ingest_catalog::{Catalog, SearchQuery};
use proptest::prelude::*;
use tokio::runtime::Runtime;

use ingest_testing::fuzz::{corpus, text_near};

fn catalog() -> &'static (tempfile::TempDir, Catalog, Runtime) {
    static CATALOG: OnceLock<(tempfile::TempDir, Catalog, Runtime)> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&directory.path().join("catalog.db")).unwrap();
        (directory, catalog, Runtime::new().unwrap())
    })
}

fn search(words: &str) {
    let (_, catalog, runtime) = catalog();
    let query = SearchQuery {
        words: words.to_owned(),
        kind: Some(words.to_owned()),
        region: Some(words.to_owned()),
        since: None,
        limit: 5,
    };
    runtime.block_on(catalog.search(query)).unwrap();
    let query = SearchQuery {
        words: words.to_owned(),
        kind: None,
        region: None,
        since: None,
        limit: 5,
    };
    runtime.block_on(catalog.search(query)).unwrap();
}

#[test]
fn every_search_of_the_corpus_is_answered() {
    for (_, bytes) in corpus("words") {
        search(&String::from_utf8_lossy(&bytes));
    }
}

proptest! {
    #[test]
    fn any_words_can_be_looked_for(words in r#"("|\*|\^|:|-|\(|\)|AND|OR|NOT|NEAR/[0-9]|\{|\}|\+| |text|.|\x00){0,30}"#) {
        search(&words);
    }

    #[test]
    fn changed_words_can_be_looked_for(words in text_near("words")) {
        search(&words);
    }
}
