//! The one home of every key name. All keys of an account carry its name as a hash tag, so that they live in one slot.

/// The keys of an account, in the order in which every script takes them.
pub fn of_account(account: &str) -> [String; 5] {
    ["meta", "log", "units", "marks", "sums"].map(|part| format!("ingest:{{{account}}}:{part}"))
}
