/// The target of the link of relation `next` in the values of `Link` headers (RFC 8288).
#[must_use]
pub fn next_link<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    values.into_iter().find_map(next_in)
}

fn next_in(value: &str) -> Option<&str> {
    let mut rest = value;
    loop {
        let (target, after) = rest.split_once('<')?.1.split_once('>')?;
        let (parameters, more) = split_unquoted(after, ',');
        if is_next(parameters) {
            return Some(target.trim());
        }
        rest = more?;
    }
}

/// Whether the parameters of a link name the relation `next`, alone or among others.
fn is_next(parameters: &str) -> bool {
    let mut rest = Some(parameters);
    while let Some(text) = rest {
        let (parameter, more) = split_unquoted(text, ';');
        if let Some((name, value)) = parameter.split_once('=')
            && name.trim().eq_ignore_ascii_case("rel")
        {
            let relations = value.trim().trim_matches('"');
            return relations
                .split_ascii_whitespace()
                .any(|relation| relation.eq_ignore_ascii_case("next"));
        }
        rest = more;
    }
    false
}

/// Splits at the first `separator` outside quotes.
fn split_unquoted(text: &str, separator: char) -> (&str, Option<&str>) {
    let (mut quoted, mut escaped) = (false, false);
    let at = text.find(|character| {
        let here = !quoted && character == separator;
        quoted ^= character == '"' && !escaped;
        escaped = quoted && character == '\\' && !escaped;
        here
    });
    match at.and_then(|at| text.split_at_checked(at)) {
        Some((before, after)) => (before, after.strip_prefix(separator)),
        None => (text, None),
    }
}
