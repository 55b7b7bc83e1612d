//! A limit that counts in parts: old charges of a part become one row of the file, and reports say what they said before.

use ingest_quota::{Counting, Limit, Units, Window};

use super::File;
use super::open;
use crate::books::{Books, account, at, cost, entry, id, secs};

#[tokio::test]
async fn old_charges_become_one_row_for_each_part_and_purpose() {
    let file = File::new();
    let ledger = open(&file.path());
    let window = Window::new(Some(secs(3_600)), None).unwrap();
    let window = window.counted(Counting::Buckets(60)).unwrap();
    let limit = Limit::new(Units::new(5_000), Units::ZERO, window).unwrap();
    let account = account([("daily", limit)]);
    let books = Books::new(std::sync::Arc::new(ledger.clone()), account.clone());
    let absorbed = entry(&id("absorbed"), at(10.0), cost([("daily", 7)]));
    books.absorb(&[absorbed], &[], at(20.0)).await;
    for nth in 0..1_200 {
        books
            .take(&cost([("daily", 2)]), at(30.0 + f64::from(nth)))
            .await;
    }
    // What is left: twenty parts, ten minutes of single charges and those that gather until they are merged.
    let rows: i64 = file
        .query()
        .query_row("select count(*) from charge", [], |row| row.get(0))
        .unwrap();
    assert!((610..720).contains(&rows), "{rows}");
    let spent = ledger.spent(&account, at(0.0)).await.unwrap();
    let units: Units = spent.iter().map(|spent| spent.units).sum();
    let charges: u64 = spent.iter().map(|spent| spent.charges).sum();
    assert_eq!((units.get(), charges), (2_407, 1_201));
    assert_eq!(books.used("daily", at(1_230.0)).await, 2_407);
    let merged = spent.iter().find(|spent| spent.charges > 1).unwrap();
    assert_eq!(merged.purpose.call, "videos.list");
}
