use std::path::Path;

/// Every Rust file below a directory, the sandbox's and tests left out.
fn sources(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("sandbox") || path.ends_with("tests") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_code_but_the_sandboxs_names_an_upstream() {
    let mut found = Vec::new();
    for folder in ["src", "crates"] {
        sources(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder),
            &mut found,
        );
    }
    assert!(found.len() > 50);
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("//"));
        for line in code {
            let line = line.to_lowercase();
            let named = ["youtube", "github", "gnews", "wikimedia", "analytics"]
                .iter()
                .find(|name| line.contains(**name));
            assert_eq!(named, None, "{}: {line}", path.display());
        }
    }
}
