//! Names: how they are written, and suggestions for misspelt ones.

/// A dotted path as TOML and `--set` write it.
pub fn dotted(path: &[impl AsRef<str>]) -> String {
    path.iter()
        .map(|segment| quoted(segment.as_ref()))
        .collect::<Vec<_>>()
        .join(".")
}

/// A key, in quotes where TOML requires them.
pub fn quoted(key: &str) -> String {
    let bare = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if !key.is_empty() && key.chars().all(bare) {
        key.to_owned()
    } else {
        format!("{key:?}")
    }
}

/// What to write instead of an unknown name.
pub fn advice<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match closest(name, &known) {
        Some(meant) => format!("did you mean {}{}?", quoted(meant), without(name, meant)),
        None if known.is_empty() => "none is defined: remove it".to_owned(),
        None => format!("write {}", choice(&known)),
    }
}

/// The invisible characters by which a name differs from the one that was meant, as the end of a question:
/// `, without U+200B`. Empty if there are none.
pub fn without(name: &str, meant: &str) -> String {
    let overlooked = |one: &char| !one.is_ascii_graphic() && !meant.contains(*one);
    let mut codes: Vec<String> = name
        .chars()
        .filter(overlooked)
        .map(|one| format!("U+{:04X}", u32::from(one)))
        .collect();
    codes.dedup();
    if codes.is_empty() {
        return String::new();
    }
    format!(", without {}", codes.join(" and "))
}

/// Several names, of which one is to be chosen.
pub fn choice(known: &[&str]) -> String {
    const MOST: usize = 20;
    let shown: Vec<String> = known.iter().take(MOST).map(|name| quoted(name)).collect();
    let shown = shown.join(", ");
    match known.len() {
        1 => shown,
        0..=MOST => format!("one of {shown}"),
        _ => format!("one of {shown}, ..."),
    }
}

/// The name that is likely meant: close enough to be a typing error. `None` if none is.
pub fn closest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let distance =
        |known: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    let most = (name.chars().take(64).count() / 3).max(1);
    let best = known
        .iter()
        .copied()
        .map(|known| (distance(known), known))
        .min()?;
    (best.0 <= most && name.len() < 200).then_some(best.1)
}

/// Whether a header, a parameter or a member of this name is likely to carry a secret: `api_key`, `X-Auth-Token`, `password`.
pub fn names_secret(name: &str) -> bool {
    const WHOLE: [&str; 7] = ["key", "auth", "sig", "signature", "pass", "pwd", "token"];
    const PARTS: [&str; 9] = [
        "password",
        "passwd",
        "secret",
        "apikey",
        "accesskey",
        "privatekey",
        "accesstoken",
        "authtoken",
        "authorization",
    ];
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let name: String = letters.collect::<String>().to_ascii_lowercase();
    WHOLE.contains(&&*name) || PARTS.iter().any(|part| name.contains(part))
}
