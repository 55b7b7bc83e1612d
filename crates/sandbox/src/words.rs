//! Invented texts in ten languages (`words.json`).

use std::sync::LazyLock;

use serde::Deserialize;

use super::chance::Chance;

/// A language, and where it is mostly written.
#[derive(Debug, Deserialize)]
pub struct Language {
    pub code: String,
    regions: Vec<String>,
    separator: String,
    words: Vec<String>,
}

static LANGUAGES: LazyLock<Vec<Language>> =
    LazyLock::new(|| serde_json::from_str(include_str!("words.json")).unwrap_or_default());

impl Language {
    /// The language of a region; any language in 15 of 100 cases, and where the region has none.
    pub fn for_region(region: Option<&str>, chance: Chance) -> Option<&'static Self> {
        let count = u64::try_from(LANGUAGES.len()).unwrap_or_default();
        let any = usize::try_from(chance.of("script").below(count)).ok();
        let is_local = |language: &&Self| {
            let mut regions = language.regions.iter();
            regions.any(|code| Some(code.as_str()) == region)
        };
        let local = LANGUAGES.iter().find(is_local);
        let local = local.filter(|_| !chance.of("abroad").percent(15));
        local.or_else(|| LANGUAGES.get(any?))
    }
}

/// This number of words.
pub fn words(language: &Language, count: u64, chance: Chance) -> String {
    let all: Vec<&str> = language.words.iter().map(String::as_str).collect();
    let words: Vec<&str> = (0..count)
        .map(|number| chance.nth(number).pick(&all))
        .collect();
    words.join(&language.separator)
}

/// A title; some contain characters that need escaping.
pub fn title(language: &Language, chance: Chance) -> String {
    let words = words(
        language,
        chance.of("length").below(5).saturating_add(2),
        chance,
    );
    match chance.of("decoration").below(12) {
        0 => format!("{words} & Co."),
        1 => format!("\"{words}\""),
        2 => format!("{words} 🎬"),
        3 => format!("Don't miss: {words}"),
        4 => format!("{words} | #{}", chance.of("episode").below(400)),
        5 => format!("🔥 {words} <live>"),
        _ => words,
    }
}

/// A description: up to four lines.
pub fn text(language: &Language, chance: Chance) -> String {
    let lines = chance.of("lines").below(5);
    let line = |number| {
        words(
            language,
            chance.of("line").nth(number).below(9).saturating_add(3),
            chance.nth(number),
        )
    };
    (0..lines).map(line).collect::<Vec<_>>().join("\n")
}

/// A name of one or two words.
pub fn name(language: &Language, chance: Chance) -> String {
    words(
        language,
        chance.of("length").below(2).saturating_add(1),
        chance,
    )
}

/// The text, escaped for HTML.
pub fn escaped(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}
