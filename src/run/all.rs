//! Work side by side.

use std::future::Future;

use futures_util::StreamExt;

/// Drives all of these futures to their ends, at most `most` at once, and returns their results in the order of the futures. The
/// only place for this: a future that holds a connection, a permit or a lock must not wait to be polled, so nobody may await
/// anything else while some of them are under way.
#[expect(
    clippy::disallowed_methods,
    reason = "they are all driven to their ends here"
)]
pub async fn all<F: Future>(most: usize, futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let numbered = futures.into_iter().enumerate();
    // The futures of a region or a batch are large, and are moved several times until they are polled.
    let boxed = |(place, future)| (place, Box::pin(future));
    let numbered = numbered.map(boxed);
    let numbered = numbered.map(|(place, future)| async move { (place, future.await) });
    let ended = futures_util::stream::iter(numbered).buffer_unordered(most);
    let mut ended: Vec<(usize, F::Output)> = ended.collect().await;
    ended.sort_by_key(|(place, _)| *place);
    ended.into_iter().map(|(_, result)| result).collect()
}
