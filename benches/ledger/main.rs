//! What one charge costs at every ledger: `cargo bench --bench ledger`.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

mod books;
mod counting;
mod redis;
#[path = "../../crates/ledger/tests/all/shared_as_ledger.rs"]
mod shared_as_ledger;
mod sqlite;
mod table;
mod values;

/// What to compare the table before it with, by hand.
const FIRST_RELEASE: &str = "The first release took 28 to 36 \u{b5}s at the median where docs/benchmarks.md was measured. \
    To measure it here: `git worktree add --detach ../first 36a8050`, and `cargo bench --bench ledger -- sqlite` there.";

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
        println!("{FIRST_RELEASE}\n");
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
