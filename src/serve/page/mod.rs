//! The page, for people.

use std::sync::Arc;

use axum::Router;

use super::App;

pub fn routes() -> Router<Arc<App>> {
    Router::new()
}
