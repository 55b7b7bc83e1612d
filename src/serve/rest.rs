//! Bodies that nobody read. The client would take what is left of one for a failure of its next request, so it is read when the
//! request is answered, or the answer says that the connection ends with it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Request, header};
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use tokio::time::timeout;
use tower_service::Service;

/// The most of a body, in bytes, that is read after its request was answered.
const LONGEST_REST: usize = 1024 * 1024;
/// How long that may take.
const REST_WITHIN: Duration = Duration::from_secs(1);

/// Answers a request, and reads what is left of its body.
pub async fn answer(
    mut router: Router,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    // A client that asks before it sends its body sends none to a request that is refused.
    let asks = request.headers().contains_key(header::EXPECT);
    let (head, body) = request.into_parts();
    let body = SharedBody(Arc::new(Mutex::new(body)));
    let request = Request::from_parts(head, Body::new(body.clone()));
    let mut response = router.call(request).await?;
    let is_read = body.is_end_stream()
        || !asks && matches!(timeout(REST_WITHIN, body.discard()).await, Ok(true));
    if !is_read {
        close_after(&mut response);
    }
    Ok(response)
}

/// Says that the connection ends with its answer, as it then does.
pub fn close_after(response: &mut Response) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}

/// The body of a request, of which the rest can be read when it is answered.
#[derive(Clone)]
struct SharedBody(Arc<Mutex<Incoming>>);

impl SharedBody {
    /// Reads what is left of a short body. Returns whether it came to its end.
    async fn discard(mut self) -> bool {
        let mut left = LONGEST_REST;
        loop {
            let bytes = match self.frame().await {
                None => return true,
                Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
                Some(Err(_)) => return false,
            };
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return false,
            }
        }
    }
}

impl hyper::body::Body for SharedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut *self.0.lock()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().size_hint()
    }
}
