//! The forms of the page: what is asked for stands in the address.

use std::collections::BTreeSet;

use crate::commands::environment::Environment;
use crate::doc::html::escaped;
use crate::doc::{PageLink, Phrase, Phrases};

/// A form of a view, with these fields.
pub fn form(path: &str, button: &str, fields: &[String]) -> String {
    let fields = fields.concat();
    format!(
        "<form method=\"get\" action=\"{path}\">{fields}<div><button type=\"submit\">{button}</button></div></form>"
    )
}

/// A field of a form, with an example.
pub fn field((name, label): (&str, &str), value: Option<&str>, example: &str) -> String {
    let (value, example) = (escaped(value.unwrap_or_default()), escaped(example));
    format!(
        "<div><label for=\"{name}\">{label}</label><input type=\"text\" id=\"{name}\" name=\"{name}\" value=\"{value}\" \
         placeholder=\"{example}\" autocomplete=\"off\"></div>"
    )
}

/// A field of a form with these values to choose from. The list has the chosen value even if it is not one of these.
pub fn choice(
    (name, label): (&str, &str),
    values: &BTreeSet<&str>,
    chosen: Option<&str>,
) -> String {
    let other = chosen.filter(|chosen| !values.contains(chosen));
    let options = other.iter().chain(values).map(|value| {
        let selected = if chosen == Some(*value) {
            " selected"
        } else {
            ""
        };
        let value = escaped(value);
        format!("<option value=\"{value}\"{selected}>{value}</option>")
    });
    let options: String = options.collect();
    format!(
        "<div><label for=\"{name}\">{label}</label><select id=\"{name}\" name=\"{name}\"><option value=\"\">any</option>{options}\
         </select></div>"
    )
}

pub fn regions_of(environment: &Environment) -> BTreeSet<&str> {
    let regions = environment.config.regions.iter();
    regions.map(|region| &*region.code).collect()
}

pub fn link(text: &str, to: PageLink) -> Phrases {
    Phrase::linked(text, to).into()
}
