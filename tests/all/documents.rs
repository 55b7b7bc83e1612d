//! The documents name what exists: files, links, tests and rules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below `folder` that end in `.extension`, build output excluded.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found
}

/// What stands between `open` and `close`, each time that it does.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    text.split(open)
        .skip(1)
        .filter_map(move |rest| rest.split_once(close).map(|(found, _)| found))
}

#[test]
fn every_link_between_documents_leads_to_a_file() {
    let mut dead = Vec::new();
    let mut seen = 0;
    for document in files(root(), "md") {
        let text = fs::read_to_string(&document).unwrap();
        for link in between(&text, "](", ')') {
            let path = link.split('#').next().unwrap();
            if path.is_empty() || link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            if !document.parent().unwrap().join(path).exists() {
                dead.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(seen > 20, "only {seen} links were found");
    assert!(dead.is_empty(), "{dead:#?}");
}

/// The anchors of a document: those that it writes itself, and those that sites make of its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let written = between(text, "<a id=\"", '"').map(str::to_owned);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let headings = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let slug = |heading: String| {
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    written.chain(headings.map(slug)).collect()
}

#[test]
fn every_anchor_that_a_link_names_is_in_its_document() {
    let mut dead = Vec::new();
    let mut seen = 0;
    for document in files(root(), "md") {
        let text = fs::read_to_string(&document).unwrap();
        for link in between(&text, "](", ')').filter(|link| !link.contains("://")) {
            let Some((path, anchor)) = link.split_once('#') else {
                continue;
            };
            let target = match path {
                "" => document.clone(),
                path => document.parent().unwrap().join(path),
            };
            seen += 1;
            if !anchors(&fs::read_to_string(target).unwrap()).contains(anchor) {
                dead.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(seen > 5, "only {seen} anchors were found");
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn every_path_that_a_document_names_exists() {
    const PLACES: [&str; 8] = [
        "src/",
        "crates/",
        "tests/",
        "lua/",
        "docs/",
        "examples/",
        "benches/",
        "presets/",
    ];
    let mut missing = Vec::new();
    let mut seen = 0;
    let history = root().join("CHANGELOG.md");
    for document in files(root(), "md")
        .into_iter()
        .filter(|path| *path != history)
    {
        let text = fs::read_to_string(&document).unwrap();
        for line in text.lines() {
            for name in line.split('`').skip(1).step_by(2) {
                let plain = !name.contains([' ', '*', '<', '{', 'N']);
                if !plain || !PLACES.iter().any(|place| name.starts_with(place)) {
                    continue;
                }
                seen += 1;
                let path = root().join(name.split("::").next().unwrap());
                if !path.exists() && !path.with_extension("rs").exists() {
                    missing.push(format!("{}: {name}", document.display()));
                }
            }
        }
    }
    assert!(seen > 20, "only {seen} paths were found");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_rule_that_is_cited_is_in_the_protocol() {
    let protocol = fs::read_to_string(root().join("docs/ledger-protocol.md")).unwrap();
    let sources = ["src", "crates", "tests", "lua", "docs"]
        .iter()
        .flat_map(|folder| ["rs", "lua", "md"].map(|extension| (folder, extension)))
        .flat_map(|(folder, extension)| files(&root().join(folder), extension));
    let mut cited = 0;
    let mut unknown = Vec::new();
    for source in sources {
        let text = fs::read_to_string(&source).unwrap();
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        for rule in words.filter(|word| is_rule(word)) {
            cited += 1;
            if !protocol.contains(&format!("- **{rule}** ")) {
                unknown.push(format!("{}: {rule}", source.display()));
            }
        }
    }
    assert!(cited > 50, "only {cited} citations were found");
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// `L` and one or two digits: a rule of the ledger protocol.
fn is_rule(word: &str) -> bool {
    word.strip_prefix('L').is_some_and(|digits| {
        (1..=2).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit())
    })
}
