//! What one charge costs at every ledger: `cargo bench --bench ledger`.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

mod books;
mod redis;
#[path = "../../tests/all/support/redis_server.rs"]
#[expect(
    dead_code,
    clippy::panic,
    reason = "it is the tests', which use the rest"
)]
mod redis_server;
mod sqlite;
mod table;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let only = std::env::args().nth(1).unwrap_or_default();
    if "sqlite".contains(&only) || only.starts_with('-') {
        println!("{}", runtime.block_on(sqlite::charges()));
    }
    if "redis".contains(&only) || only.starts_with('-') {
        println!("{}", runtime.block_on(redis::charges()));
    }
}
