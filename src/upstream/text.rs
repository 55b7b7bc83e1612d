use crate::plain::is_hidden;

/// So much of what an upstream says is shown, in characters: with what goes before it, at most 200.
const LONGEST: usize = 160;

/// A text of theirs as one short line that a terminal can be given.
pub fn one_line(text: &str) -> String {
    let plain = without_escapes(text);
    let mut words = String::new();
    for word in plain.split_whitespace().take(LONGEST) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    clipped(&words)
}

fn clipped(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// The text without terminal escapes; other control characters, and those that turn the writing round, become spaces.
fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_to(&mut rest, |last| ('@'..='~').contains(&last)),
            hidden if is_hidden(hidden) => plain.push(' '),
            other => plain.push(other),
        }
    }
    plain
}

fn skip_escape(rest: &mut std::str::Chars<'_>) {
    match rest.next() {
        Some('[') => skip_to(rest, |last| ('@'..='~').contains(&last)),
        Some(']' | 'P' | '^' | '_') => {
            skip_to(rest, |last| matches!(last, '\u{7}' | '\u{9c}' | '\u{1b}'))
        }
        _ => (),
    }
}

fn skip_to(rest: &mut std::str::Chars<'_>, is_last: impl Fn(char) -> bool) {
    let _ = rest.find(|character| is_last(*character));
}

/// Whether a body looks like a web page.
pub fn is_html(text: &str) -> bool {
    text.trim_start().starts_with('<')
}

/// What a reader of a web page would see first: its title, else its text.
pub fn html_text(page: &str) -> String {
    let title = between(page, "<title>", "</title>").filter(|title| !title.trim().is_empty());
    without_tags(title.unwrap_or(page))
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inner, _)| inner)
}

/// The text without HTML tags, words kept apart. A `<` that begins none stays.
pub fn without_tags(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        plain.push_str(before);
        let begins_tag = tag.starts_with(|next: char| {
            next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?')
        });
        match tag.split_once('>').filter(|_| begins_tag) {
            Some((_, after)) => {
                if after.starts_with(char::is_alphanumeric) {
                    plain.push(' ');
                }
                rest = after;
            }
            None => {
                plain.push('<');
                rest = tag;
            }
        }
    }
    plain + rest
}
