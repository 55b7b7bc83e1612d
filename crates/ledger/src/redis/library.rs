//! The Lua that Redis runs: one text, called as functions or as a script.

use std::sync::LazyLock;

use strum::VariantArray;

/// The files of `lua/`, in the order in which they build on each other.
const TEXT: &str = concat!(
    include_str!("../../lua/ledger.lua"),
    include_str!("../../lua/log.lua"),
    include_str!("../../lua/tidy.lua"),
    include_str!("../../lua/charge.lua"),
    include_str!("../../lua/amend.lua"),
    include_str!("../../lua/usage.lua"),
);

/// What the text offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Operation {
    Charge,
    Settle,
    Absorb,
    Close,
    Usage,
}

/// The text in both forms. Its name carries its hash: releases with another text call it beside each other.
pub struct Library {
    name: String,
    /// For `FUNCTION LOAD`.
    pub functions: String,
    /// For `EVAL`; the name of the operation is the last argument.
    pub script: String,
    /// By which `EVALSHA` finds the script.
    pub sha: String,
}

pub static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let sha = |text: &str| redis::Script::new(text).get_hash().to_owned();
    let name = format!("ingest_{:.16}", sha(TEXT));
    // While it loads a library, Redis offers nothing to loop with.
    let offers = Operation::VARIANTS.iter().map(|operation| {
        let operation = <&str>::from(operation);
        format!("redis.register_function('{name}_{operation}', operations.{operation})\n")
    });
    let functions = format!("#!lua name={name}\n{TEXT}{}", offers.collect::<String>());
    let script = format!("{TEXT}return operations[table.remove(ARGV)](KEYS, ARGV)\n");
    let sha = sha(&script);
    Library {
        name,
        functions,
        script,
        sha,
    }
});

impl Library {
    /// The name by which `FCALL` finds an operation.
    pub fn function(&self, operation: Operation) -> String {
        format!("{}_{}", self.name, <&str>::from(operation))
    }
}
