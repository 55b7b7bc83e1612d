//! What one charge costs at every ledger: `cargo bench --bench ledger`.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

mod books;
mod sqlite;
mod table;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    println!("{}", runtime.block_on(sqlite::charges()));
}
