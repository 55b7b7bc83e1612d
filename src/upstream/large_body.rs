//! Large answers are taken one at a time, so that memory holds one of them however many regions walk.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Of a larger body all that is read further, parsed and landed is done alone. Below, bodies are read side by side: a server
/// may not wait for whoever stops in the middle of one.
pub const READ_TOGETHER: usize = 1024 * 1024;

/// A body that is longer is parsed and landed alone.
const PARSED_TOGETHER: usize = 1024 * 1024;

/// So is one that holds more values: a parsed value takes up to a hundred times the bytes that it is written in.
const VALUES_TOGETHER: usize = 50_000;

static TURN: Semaphore = Semaphore::const_new(1);

/// The turn of a large answer, which ends when this is dropped; of a small one, nothing.
#[derive(Debug, Clone, Default)]
pub struct LargeBodySlot(Option<Arc<SemaphorePermit<'static>>>);

impl LargeBodySlot {
    /// Whether a body is so large that it waits for its turn.
    pub fn is_large(bytes: usize, values: impl FnOnce() -> usize) -> bool {
        bytes > PARSED_TOGETHER || values() > VALUES_TOGETHER
    }

    /// Waits for the turn, unless it came already.
    pub async fn wait(&mut self) {
        if self.0.is_none() {
            self.0 = TURN.acquire().await.ok().map(Arc::new);
        }
    }
}

/// It says nothing of an answer, so all are alike.
impl PartialEq for LargeBodySlot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
