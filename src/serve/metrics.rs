//! `/metrics`: the state now, in the families of `--metrics-file`. How the last run ended is in that file alone.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::App;
use super::problem::Problem;
use crate::commands::metrics as families;

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET /metrics`
pub async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let text = app
        .read(|environment| async move { families::text(&environment, None).await })
        .await?;
    Ok(([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response())
}
