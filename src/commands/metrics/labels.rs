//! The labels of a sample, as the text format writes them. Values stay escaped.

/// Names and escaped values, in order.
pub type Labels<'a> = Vec<(&'a str, &'a str)>;

/// Reads `a="x",b="y"`; `None` if the text has another form.
pub fn parsed(mut text: &str) -> Option<Labels<'_>> {
    let mut labels = Vec::new();
    while !text.is_empty() {
        let (name, after) = text.split_once("=\"")?;
        let (value, rest) = after.split_at_checked(end_of_value(after)?)?;
        labels.push((name, value));
        let rest = rest.strip_prefix('"')?;
        text = match rest.strip_prefix(',') {
            Some(more) => more,
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    Some(labels)
}

/// Returns the position of the quote that ends a value, in bytes.
fn end_of_value(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(at),
            _ => {}
        }
    }
    None
}

/// Writes labels in braces; nothing if there are none.
pub fn written(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    format!("{{{}}}", labels.join(","))
}
