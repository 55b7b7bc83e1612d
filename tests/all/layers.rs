//! Modules depend on each other as ARCHITECTURE.md draws it, and in no cycle.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What each module may use besides itself and what stands beside all of them.
const MAY_USE: [(&str, &[&str]); 10] = [
    ("quota", &[]),
    ("config", &["quota"]),
    ("secret", &["config"]),
    ("ledger", &["config", "quota", "secret"]),
    ("upstream", &["config", "quota", "secret"]),
    ("catalog", &["config", "quota", "secret"]),
    ("run", &["catalog", "config", "ledger", "quota", "upstream"]),
    ("sandbox", &["config", "quota"]),
    (
        "commands",
        &[
            "catalog", "cli", "config", "ledger", "quota", "run", "sandbox", "secret", "upstream",
        ],
    ),
    (
        "serve",
        &[
            "catalog", "cli", "commands", "config", "ledger", "quota", "run", "secret",
        ],
    ),
];

/// Small helpers that any module but `quota` may use.
const SHARED: [&str; 9] = [
    "apart",
    "clock",
    "exit",
    "fnv",
    "plain",
    "private",
    "record",
    "saved_response",
    "sqlite",
];

fn sources(module: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.join(module)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}

/// The top-level modules that the code of `module` names, itself excluded.
fn used_by(module: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for source in sources(module) {
        let text = fs::read_to_string(source).unwrap();
        for path in text.split("crate::").skip(1) {
            let name: String = path
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect();
            used.insert(name);
        }
    }
    used.retain(|name| name != module && !name.is_empty());
    used
}

#[test]
fn a_module_uses_only_modules_below_it() {
    for (module, allowed) in MAY_USE {
        let shared: &[&str] = if module == "quota" { &[] } else { &SHARED };
        for used in used_by(module) {
            assert!(
                allowed.contains(&used.as_str()) || shared.contains(&used.as_str()),
                "{module} uses {used}: see the module map in ARCHITECTURE.md"
            );
        }
    }
}

#[test]
fn the_domain_has_no_io_no_clock_and_no_async() {
    for source in sources("quota") {
        let text = fs::read_to_string(&source).unwrap();
        for forbidden in [
            "std::fs",
            "std::io",
            "std::net",
            "SystemTime",
            "Instant::now",
            "Utc::now",
            "tokio",
            "async fn",
        ] {
            assert!(
                !text.contains(forbidden),
                "{}: {forbidden}",
                source.display()
            );
        }
    }
}

/// A new kind of paging is then one module: whatever depends on the kind is there, and the compiler names what it lacks.
#[test]
fn only_the_module_of_paging_knows_its_kinds() {
    let elsewhere = sources("")
        .into_iter()
        .filter(|path| !path.ends_with("src/config/paging.rs"));
    for path in elsewhere {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim().starts_with("//"));
        let found: Vec<_> = code.filter(|line| line.contains("Paging::")).collect();
        assert_eq!(found, Vec::<&str>::new(), "{}", path.display());
    }
}
