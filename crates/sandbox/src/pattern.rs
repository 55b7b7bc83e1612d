//! Recognises the paths that a template of the configuration renders.

/// What a variable ends with whose value keeps its slashes.
pub const PATH: &str = ":path";

/// A path template that recognises what was rendered from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(String),
}

impl Pattern {
    /// Parses a template: `{name}` matches any text, `{{` and `}}` a brace.
    pub fn new(template: &str) -> Self {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = template.trim_matches('/');
        while let Some(first) = rest.chars().next() {
            rest = match rest
                .strip_prefix('{')
                .and_then(|inner| inner.split_once('}'))
            {
                Some((name, after)) if !rest.starts_with("{{") => {
                    pieces.extend([
                        Piece::Text(std::mem::take(&mut text)),
                        Piece::Variable(name.to_owned()),
                    ]);
                    after
                }
                _ => {
                    text.push(first);
                    let doubled = if first == '{' { "{{" } else { "}}" };
                    rest.strip_prefix(doubled)
                        .or_else(|| rest.strip_prefix(first))
                        .unwrap_or_default()
                }
            };
        }
        pieces.push(Piece::Text(text));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Self { pieces }
    }

    /// The values of the variables, by name; `None` where the template does not render this path.
    pub fn read<'a>(&'a self, path: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
        read(&self.pieces, path.trim_matches('/'))
    }

    /// The length of its fixed text: of two patterns that match, the more precise one applies.
    pub fn precision(&self) -> usize {
        let lengths = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Variable(_) => 0,
        });
        lengths.sum()
    }
}

fn read<'a>(pieces: &'a [Piece], path: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
    match pieces.split_first() {
        None => path.is_empty().then(Vec::new),
        Some((Piece::Text(text), rest)) => read(rest, path.strip_prefix(text.as_str())?),
        Some((Piece::Variable(name), rest)) => {
            let found = ends(name, path).find_map(|end| {
                let (value, after) = path.split_at_checked(end)?;
                Some((value, read(rest, after)?))
            });
            found.map(|(value, mut others)| {
                others.push((name, value));
                others
            })
        }
    }
}

/// Where a variable may end. Only the format of a date or an instant may contain slashes, and a value that keeps its own.
fn ends<'a>(name: &str, path: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_segment = name.starts_with("parent:") && !name.ends_with(PATH);
    let reach = if name.contains(':') && !is_segment {
        path.len()
    } else {
        path.find('/').unwrap_or(path.len())
    };
    // The longest first: a value can contain the text that follows its variable.
    (1..=reach).rev()
}
