//! Runs the reads: few at once, away from the threads that answer, each with a deadline.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::App;
use super::problem::Problem;
use super::turns::{Turns, WAIT, apart};
use crate::commands::Error;
use crate::commands::environment::Environment;

/// The most reads at once. They wait for disks or a server more than for processors, but a run beside needs those too.
const MOST: usize = 4;
/// How long a read that was cancelled may take to end.
const TO_END: Duration = Duration::from_millis(250);

/// The turns and the deadline of reads.
pub struct Reads {
    turns: Turns,
    /// One simulation at a time: it holds its charges and passes in memory.
    simulations: Turns,
    within: Duration,
}

impl Reads {
    /// Reads that may take this long each, once it is their turn.
    pub fn new(within: Duration) -> Self {
        Self {
            turns: Turns::of(MOST),
            simulations: Turns::of(1),
            within,
        }
    }
}

impl App {
    /// Reads what needs a simulation, behind those that asked before.
    pub async fn simulate<T, F>(
        &self,
        read: impl FnOnce(Arc<Environment>) -> F + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>>,
    {
        let turn = self.reads.simulations.take().await?;
        // Held by the read itself, which may outlast its answer.
        self.read(move |environment| async move {
            let _turn = turn;
            read(environment).await
        })
        .await
    }

    /// Reads from the state, when it is this read's turn and clients have read enough of the answers to others. At the
    /// deadline the read is cancelled.
    pub async fn read<T, F>(
        &self,
        read: impl FnOnce(Arc<Environment>) -> F + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>>,
    {
        let turn = timeout(WAIT, async {
            let turn = self.reads.turns.take().await;
            // Behind the wait for a turn, so that it holds when the read begins.
            self.unread.are_few().await;
            turn
        });
        let turn = turn.await.map_err(|_| Problem::busy())??;
        let until = Instant::now() + self.reads.within;
        let (environment, seen) = (Arc::clone(&self.environment), Arc::clone(&self.seen));
        let reading = apart(move || async move {
            let _turn = turn;
            let read = async {
                seen.expect(&environment)?;
                read(Arc::clone(&environment)).await
            };
            timeout_at(until, read).await
        });
        // A read that does not end when it is cancelled is answered all the same, and keeps its turn until it ends.
        let rest = until.saturating_duration_since(Instant::now()) + TO_END;
        match timeout(rest, reading).await {
            Ok(Ok(Ok(result))) => Ok(result?),
            Ok(Ok(Err(_))) | Err(_) => Err(Problem::too_slow()),
            Ok(Err(error)) => Err(Error::io("a read did not finish")(error.into()).into()),
        }
    }
}
