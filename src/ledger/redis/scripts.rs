//! The Lua that Redis runs, one script an operation.

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
    pub code: &'static str,
    pub sha: String,
}

macro_rules! source {
    ($name:literal) => {
        LazyLock::new(|| {
            Source::new(concat!(
                include_str!("../../../lua/common.lua"),
                include_str!(concat!("../../../lua/", $name, ".lua"))
            ))
        })
    };
}

static CHARGE: LazyLock<Source> = source!("charge");
static SETTLE: LazyLock<Source> = source!("settle");
static ABSORB: LazyLock<Source> = source!("absorb");
static CLOSE: LazyLock<Source> = source!("close");
static USAGE: LazyLock<Source> = source!("usage");
static FALLS: LazyLock<Source> = source!("falls");
static CHECK: LazyLock<Source> = source!("check");
static PROBE: LazyLock<Source> =
    LazyLock::new(|| Source::new(include_str!("../../../lua/probe.lua")));

impl Source {
    fn new(code: &'static str) -> Self {
        Self {
            code,
            sha: redis::Script::new(code).get_hash().to_owned(),
        }
    }
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
