//! The Lua that Redis runs, one script an operation. A script is assembled from the modules that it needs, in their order:
//! Redis runs the whole text at every call, so it costs nothing to have few of them.

use std::sync::LazyLock;

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    Charge,
    Settle,
    Absorb,
    Close,
    Usage,
    Falls,
    Check,
    Probe,
}

/// A script's text, and the name by which Redis remembers it.
pub struct Source {
    pub code: String,
    pub sha: String,
}

macro_rules! lua {
    ($($module:literal)*) => {
        &[$(include_str!(concat!("../../lua/", $module, ".lua"))),*]
    };
}

static CHARGE: LazyLock<Source> = LazyLock::new(|| {
    Source::assemble(
        lua!("terms" "state" "units" "log" "forecast" "used" "changes" "commit" "charge"),
    )
});
static SETTLE: LazyLock<Source> = LazyLock::new(|| {
    Source::assemble(lua!("terms" "arguments" "state" "units" "log" "changes" "commit" "settle"))
});
static ABSORB: LazyLock<Source> = LazyLock::new(|| {
    Source::assemble(lua!("terms" "arguments" "state" "units" "log" "changes" "commit" "absorb"))
});
static CLOSE: LazyLock<Source> = LazyLock::new(|| {
    Source::assemble(lua!("terms" "arguments" "state" "units" "log" "changes" "commit" "close"))
});
static USAGE: LazyLock<Source> = LazyLock::new(|| {
    Source::assemble(lua!("terms" "arguments" "state" "units" "log" "forecast" "used" "usage"))
});
static FALLS: LazyLock<Source> = LazyLock::new(|| {
    Source::assemble(lua!("terms" "arguments" "state" "units" "log" "forecast" "used" "falls"))
});
static CHECK: LazyLock<Source> = LazyLock::new(|| {
    Source::assemble(lua!("terms" "state" "units" "log" "changes" "commit" "check"))
});
static PROBE: LazyLock<Source> = LazyLock::new(|| Source::assemble(lua!("probe")));

/// The keys of an account, in the order in which every script takes them. All carry its name as a hash tag, so that they
/// are in one slot (L47). `prefix` keeps sandbox runs apart. No other code names a key.
pub fn keys_of(prefix: &str, account: &str) -> [String; 5] {
    ["meta", "log", "units", "marks", "sums"].map(|part| format!("{prefix}:{{{account}}}:{part}"))
}

impl Script {
    pub fn source(self) -> &'static Source {
        match self {
            Self::Charge => &CHARGE,
            Self::Settle => &SETTLE,
            Self::Absorb => &ABSORB,
            Self::Close => &CLOSE,
            Self::Usage => &USAGE,
            Self::Falls => &FALLS,
            Self::Check => &CHECK,
            Self::Probe => &PROBE,
        }
    }
}

impl Source {
    fn assemble(modules: &[&str]) -> Self {
        let code = with_numbers(&modules.concat());
        let sha = redis::Script::new(&code).get_hash().to_owned();
        Self { code, sha }
    }
}

/// Replaces the names of `lua/constants.lua` by their numbers. As variables that functions share they would take as long as
/// two commands of Redis.
fn with_numbers(code: &str) -> String {
    let constants = include_str!("../../lua/constants.lua");
    let constants: Vec<(&str, &str)> = constants
        .lines()
        .filter_map(|line| line.strip_prefix("local ")?.split_once(" = "))
        .collect();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = code;
    let mut replaced = String::with_capacity(code.len());
    while let Some(start) = rest.find(is_of_name) {
        let (before, from_name) = rest.split_at(start);
        let end = from_name.find(|c| !is_of_name(c));
        let (name, after) = from_name.split_at(end.unwrap_or(from_name.len()));
        let number = constants.iter().find(|(constant, _)| *constant == name);
        replaced.push_str(before);
        replaced.push_str(number.map_or(name, |(_, number)| number));
        rest = after;
    }
    replaced + rest
}
