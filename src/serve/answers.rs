//! The answers to charges, kept for requests that come again under the same `Idempotency-Key`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::http::StatusCode;

use super::problem::Problem;
use crate::commands::charge::{Charged, Word};

/// The most answers that are kept. Behind them the ledger itself counts an id once.
const MOST: usize = 10_000;

/// The answers, by key.
#[derive(Default)]
pub struct Answers(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_key: HashMap<String, KeptAnswer>,
    /// The keys, oldest first.
    order: VecDeque<String>,
}

struct KeptAnswer {
    /// Of the client and the body: another request under the same key is a mistake.
    fingerprint: [u8; 32],
    in_progress: bool,
    /// `None` before the first grant.
    body: Option<Bytes>,
}

impl Answers {
    /// Notes that a charge is in progress.
    ///
    /// # Errors
    /// The key is that of another request, or of one in progress.
    pub fn begin(&self, key: &str, fingerprint: [u8; 32]) -> Result<(), Problem> {
        let mut kept = self.kept();
        if let Some(answer) = kept.by_key.get_mut(key) {
            if answer.fingerprint != fingerprint {
                let detail = "another request was sent under this Idempotency-Key; use a new one";
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
            }
            if answer.in_progress {
                let detail =
                    "a request with this Idempotency-Key is in progress; repeat this one later";
                return Err(Problem::new(StatusCode::CONFLICT, detail));
            }
            answer.in_progress = true;
            return Ok(());
        }
        let answer = KeptAnswer {
            fingerprint,
            in_progress: true,
            body: None,
        };
        kept.by_key.insert(key.to_owned(), answer);
        kept.order.push_back(key.to_owned());
        kept.forget_oldest();
        Ok(())
    }

    /// Notes what became of a charge; `None`: it failed. Returns the answer that was given before, if the ledger says that the
    /// charge still holds.
    pub fn end(&self, key: &str, charged: Option<&Charged>) -> Option<Bytes> {
        let mut kept = self.kept();
        let answer = kept.by_key.get_mut(key)?;
        answer.in_progress = false;
        let is_held =
            |charged: &&Charged| matches!(charged.decision, Word::Granted | Word::Unmetered);
        let Some(charged) = charged.filter(is_held) else {
            // The ledger decides again on a charge that it did not record. An earlier answer stays with its own charge.
            if answer.body.is_none() {
                kept.by_key.remove(key);
                kept.order.retain(|one| one != key);
            }
            return None;
        };
        if charged.repeated && answer.body.is_some() {
            return answer.body.clone();
        }
        answer.body = serde_json::to_vec(charged).ok().map(Bytes::from);
        None
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forget_oldest(&mut self) {
        while self.order.len() > MOST {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            match self.by_key.get(&oldest) {
                Some(answer) if answer.in_progress => {
                    self.order.push_back(oldest);
                    return;
                }
                _ => drop(self.by_key.remove(&oldest)),
            }
        }
    }
}
