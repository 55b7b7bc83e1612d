//! Texts of web pages, which proxies send in place of a response.

/// Whether a body looks like a web page.
pub fn is_html(text: &str) -> bool {
    text.trim_start().starts_with('<')
}

/// The title of a web page; without one, its text.
pub fn html_text(page: &str) -> String {
    let title = between(page, "<title>", "</title>").filter(|title| !title.trim().is_empty());
    without_tags(title.unwrap_or(page))
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inner, _)| inner)
}

/// The text without HTML tags, which still separate words. A `<` that begins no tag stays.
pub fn without_tags(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        plain.push_str(before);
        if !is_inside_of_tag(tag) {
            plain.push('<');
            rest = tag;
            continue;
        }
        let Some((_, after)) = tag.split_once('>') else {
            // No later tag ends either. To look for its end again at each `<` would take hours for a long text.
            plain.push('<');
            rest = tag;
            break;
        };
        if after.starts_with(char::is_alphanumeric) {
            plain.push(' ');
        }
        rest = after;
    }
    plain + rest
}

fn is_inside_of_tag(text: &str) -> bool {
    text.starts_with(|next: char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'))
}
