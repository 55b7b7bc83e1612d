//! What every page has around what it shows: the navigation, and the footer.

use maud::{DOCTYPE, Markup, html};

use super::reader::Reader;
use super::{ICON_PATH, STYLE_PATH, VIEWS};
use crate::serve::problem::Problem;
use ingest_base::plain::plain;
use ingest_config::LedgerStore;

/// A page with what is wrong, for a reader who may not see more. It says nothing of the state.
pub fn problem_page(reader: &Reader, problem: &Problem) -> Markup {
    document(reader, "", &problem.title, &alert(problem), &html! {})
}

/// A page of a view.
pub fn framed(reader: &Reader, path: &str, title: &str, content: &Markup) -> Markup {
    document(reader, path, title, content, &whereabouts(reader))
}

/// A view with what is wrong. A server whose database is away does not say where that is.
pub fn framed_problem(reader: &Reader, path: &str, title: &str, content: &Markup) -> Markup {
    document(reader, path, title, content, &html! {})
}

pub fn alert(problem: &Problem) -> Markup {
    let text = plain(&problem.detail);
    let mut rest = text.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    let text: String = first.chain(rest).collect();
    html! { p role="alert" class="bad" { (text) "." } }
}

fn document(reader: &Reader, path: &str, title: &str, content: &Markup, footer: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (title) " · ingest" }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="stylesheet" href=(*STYLE_PATH);
                link rel="icon" type="image/svg+xml" href=(*ICON_PATH);
            }
            body {
                a class="skip" href="#content" { "Skip to the content" }
                header {
                    nav aria-label="Views" {
                        ul {
                            @for (to, name) in VIEWS {
                                li { a href=(reader.to(to, &[])) aria-current=[(to == path).then_some("page")] { (name) } }
                            }
                        }
                    }
                }
                main id="content" tabindex="-1" {
                    h1 { (title) }
                    (content)
                }
                footer { (footer) }
            }
        }
    }
}

/// What it is a page of.
fn whereabouts(reader: &Reader) -> Markup {
    let environment = &reader.app.environment;
    let ledger = match &environment.config.ledger.store {
        LedgerStore::Sqlite => "a file".to_owned(),
        LedgerStore::Redis(url) => url.to_string(),
    };
    let catalog = environment.database();
    let catalog = catalog.map_or("files", |database| database.shown());
    let state = &environment.state_dir;
    let state = std::path::absolute(state).unwrap_or_else(|_| state.clone());
    html! {
        p class="quiet" {
            "ingest " (env!("CARGO_PKG_VERSION")) ". State directory: " (plain(&state.display().to_string()))
            ". Ledger: " (plain(&ledger)) ". Catalog: " (plain(catalog)) "."
        }
    }
}
