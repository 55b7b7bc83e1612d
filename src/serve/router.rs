//! The routes.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::json;
use tower_http::compression::CompressionLayer;

use super::api::{json_text, typed};
use super::guard::{HEALTH, guard};
use super::problem::Problem;
use super::{App, api, charge, page};
use crate::commands::metrics;

pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/api/v1/status", get(api::status_json))
        .route("/api/v1/history", get(api::history_json))
        .route("/api/v1/search", get(api::search_json))
        .route("/api/v1/plan", get(api::plan_json))
        .route("/api/v1/records/{kind}", get(api::records))
        .route("/api/v1/records/{kind}/{id}", get(api::record))
        .route("/api/v1/charge", post(charge::charge))
        .route("/api/v1/release", post(charge::release))
        .route("/api/v1/settle", post(charge::settle))
        .route("/metrics", get(metrics_text))
        .route(HEALTH, get(health))
        .merge(page::routes())
        .fallback(nothing)
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(Arc::clone(&app), guard))
        // The last layer is the outermost: what the guard refuses is compressed too.
        .layer(CompressionLayer::new())
        .with_state(app)
}

async fn nothing(uri: Uri) -> Problem {
    let detail = format!(
        "there is nothing at {}; docs/serve.md has all addresses",
        ingest_base::plain::one_line(uri.path())
    );
    Problem::new(StatusCode::NOT_FOUND, detail)
}

async fn other_method() -> Problem {
    let detail =
        "this address does not answer requests of this method; docs/serve.md has all addresses";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}

async fn health(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    app.seen.expect(&app.environment)?;
    let limits = app.limiter.store(app.environment.clock.now()).await;
    Ok(json_text(&json!({ "status": "ok", "limits": limits })))
}

const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The state now, in the families of `--metrics-file`. How the last run ended is in that file alone.
async fn metrics_text(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let text = app
        .read(|environment| async move { metrics::text(&environment, None).await })
        .await?;
    Ok(typed(METRICS, text))
}
