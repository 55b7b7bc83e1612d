//! The full-text index is in the file and in the transaction of what it indexes.

use super::fixture::{Fixture, Page, at, video};

/// What the index itself finds, without the text of any record.
fn indexed(f: &Fixture, word: &str) -> Vec<String> {
    let sql = format!(
        "select id from record_text join record on number = record_text.rowid
        where record_text match '{word}' order by id"
    );
    f.rows(&sql)
}

#[tokio::test]
async fn a_page_and_its_words_are_one_transaction() {
    let f = Fixture::new();
    f.land(&Page::of(vec![video("a", "fox"), video("b", "hen")]))
        .await;
    f.person
        .execute_batch(
            "create trigger broken before insert on checkpoint begin select raise(abort, 'broken'); end",
        )
        .unwrap();
    let page = Page::of(vec![video("b", "fox"), video("c", "fox")]).now(at(1));
    assert!(page.land(&f.catalog).await.is_err());
    assert_eq!(indexed(&f, "fox"), ["a"]);
    assert_eq!(indexed(&f, "hen"), ["b"]);
    f.person.execute_batch("drop trigger broken").unwrap();
    page.land(&f.catalog).await.unwrap();
    assert_eq!(indexed(&f, "fox"), ["a", "b", "c"]);
    assert_eq!(indexed(&f, "hen"), [""; 0]);
}

#[tokio::test]
async fn a_text_that_is_the_same_is_not_indexed_again() {
    let f = Fixture::new();
    f.land(&Page::of(vec![video("a", "fox")])).await;
    let before = f.rows("select hex(block) from record_text_data order by id");
    f.land(&Page::of(vec![video("a", "fox")]).now(at(1))).await;
    assert_eq!(
        f.rows("select hex(block) from record_text_data order by id"),
        before
    );
}

#[tokio::test]
async fn whoever_deletes_a_record_deletes_its_words() {
    let f = Fixture::new();
    f.land(&Page::of(vec![video("a", "fox"), video("b", "fox")]))
        .await;
    f.person
        .execute_batch("delete from record where id = 'a'")
        .unwrap();
    assert_eq!(indexed(&f, "fox"), ["b"]);
    assert_eq!(f.count("record_words"), 1);
}
