//! What one charge costs at every ledger: `cargo bench --bench ledger`.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

mod books;
mod counting;
mod machine;
mod redis;
#[path = "../../crates/ledger/tests/all/shared_as_ledger.rs"]
mod shared_as_ledger;
mod sqlite;
mod table;
mod values;

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    measure(&only, &table::FULL);
}

/// The same over little: whether it still works.
#[allow(dead_code, reason = "the tests call it")]
pub fn shortened() {
    measure("-", &table::SHORTENED);
}

fn measure(only: &str, plan: &'static table::Plan) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    if "sqlite".contains(only) || only.starts_with('-') {
        println!("{}", runtime.block_on(sqlite::charges(plan)));
    }
    if "counting".contains(only) || only.starts_with('-') {
        println!("{}", runtime.block_on(counting::memory(plan)));
    }
    if "values".contains(only) || only.starts_with('-') {
        println!("{}", runtime.block_on(values::charges(plan)));
    }
    if "redis".contains(only) || only.starts_with('-') {
        for table in runtime.block_on(redis::charges(plan)) {
            println!("{table}");
        }
    }
}
