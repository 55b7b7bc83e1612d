//! The answers that clients have not read yet. They are in memory until then: where clients read slowly, further reads wait.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use tokio::sync::watch::Sender;

/// The bytes of unread answers from which on no read begins.
const MOST: usize = 16 * 1024 * 1024;

/// How many bytes of answers are in memory.
#[derive(Clone, Default)]
pub struct UnreadAnswers(Arc<Sender<usize>>);

impl UnreadAnswers {
    /// Whether reads wait for clients to read answers.
    pub fn are_many(&self) -> bool {
        *self.0.borrow() >= MOST
    }

    /// Waits until few enough answers are in memory.
    pub async fn are_few(&self) {
        // The sender lives as long as `self`, so the wait ends only with few enough.
        let _ = self.0.subscribe().wait_for(|bytes| *bytes < MOST).await;
    }

    /// Returns the response; its body counts until the client has read it or hung up.
    pub async fn counted(&self, response: Response) -> Response {
        let (head, body) = response.into_parts();
        // No body is a stream: this neither waits nor copies.
        let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
        self.0.send_modify(|all| *all += bytes.len());
        let counted = UnreadBody {
            bytes,
            unread: self.clone(),
        };
        Response::from_parts(head, Body::from(Bytes::from_owner(counted)))
    }
}

/// The body of an answer.
struct UnreadBody {
    bytes: Bytes,
    unread: UnreadAnswers,
}

impl AsRef<[u8]> for UnreadBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for UnreadBody {
    fn drop(&mut self) {
        let bytes = self.bytes.len();
        self.unread
            .0
            .send_modify(|all| *all = all.saturating_sub(bytes));
    }
}
