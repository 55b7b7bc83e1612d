//! Large responses are processed one at a time, so that memory holds one of them however many regions are walked.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::decode::may_exceed;
use ingest_config::Format;

/// A body is read up to this size, in bytes, without waiting for other large bodies: a server may not wait for a client that
/// stops in the middle of a response.
pub const READ_TOGETHER: usize = 1024 * 1024;

/// A body that is longer, in bytes, is parsed and landed alone.
const PARSED_TOGETHER: usize = 1024 * 1024;

/// So is a body with more values: a parsed value takes up to a hundred times as many bytes as its text.
const VALUES_TOGETHER: usize = 50_000;

static SLOT: Semaphore = Semaphore::const_new(1);

/// The slot of a large response, which is free again when this is dropped; nothing for a small one.
#[derive(Debug, Clone, Default)]
pub struct LargeBodySlot(Option<Arc<SemaphorePermit<'static>>>);

impl LargeBodySlot {
    /// Whether a body is so large that it waits for the slot.
    pub fn is_large(body: &[u8], format: Format) -> bool {
        body.len() > PARSED_TOGETHER || may_exceed(VALUES_TOGETHER, body, format)
    }

    /// Waits for the slot, unless it has it already.
    pub async fn wait(&mut self) {
        if self.0.is_none() {
            self.0 = SLOT.acquire().await.ok().map(Arc::new);
        }
    }
}

/// A slot says nothing about a page, so pages with and without one are equal.
impl PartialEq for LargeBodySlot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
