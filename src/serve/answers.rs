//! The answers to charges, kept for requests that come again under the same `Idempotency-Key`.

use std::collections::{HashMap, HashSet, VecDeque};

use axum::body::Bytes;
use axum::http::StatusCode;
use parking_lot::Mutex;

use super::problem::Problem;
use crate::commands::charge::{Charged, Word};

/// The most answers that are kept. The ledger still counts an id once whose answer is forgotten.
const MOST: usize = 10_000;

/// The answers, by key.
#[derive(Default)]
pub struct Answers(Mutex<KeptAnswers>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// Whose request has it: a client sends one request under a key.
    pub client: String,
    /// The account, and the id of the charge in it.
    pub id: (String, String),
}

#[derive(Default)]
struct KeptAnswers {
    /// By client and id without its account.
    by_key: HashMap<(String, String), KeptAnswer>,
    /// The ids that are in use: two clients do not share one.
    ids: HashSet<(String, String)>,
    /// The keys, oldest first.
    order: VecDeque<IdempotencyKey>,
}

struct KeptAnswer {
    /// Of the body: another request under the same key is a mistake.
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
    pub fn begin(&self, key: &IdempotencyKey, fingerprint: [u8; 32]) -> Result<(), Problem> {
        let other = || {
            let detail = "another request was sent under this Idempotency-Key; use a new one";
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail))
        };
        let mut kept = self.0.lock();
        if let Some(answer) = kept.by_key.get_mut(&key.of_client()) {
            // Asked before the progress: another body stays wrong when the first request has ended, so it is not told to come
            // again.
            if answer.fingerprint != fingerprint {
                return other();
            }
            if answer.in_progress {
                let detail =
                    "a request with this Idempotency-Key is in progress; repeat this one later";
                return Err(Problem::new(StatusCode::CONFLICT, detail));
            }
            answer.in_progress = true;
            return Ok(());
        }
        if !kept.ids.insert(key.id.clone()) {
            return other();
        }
        let answer = KeptAnswer {
            fingerprint,
            in_progress: true,
            body: None,
        };
        kept.by_key.insert(key.of_client(), answer);
        kept.order.push_back(key.clone());
        kept.forget_oldest();
        Ok(())
    }

    /// Notes what became of a charge; `None`: it failed. Returns the answer that was given before, if the ledger says that the
    /// charge still holds.
    pub fn end(&self, key: &IdempotencyKey, charged: Option<&Charged>) -> Option<Bytes> {
        let mut kept = self.0.lock();
        let answer = kept.by_key.get_mut(&key.of_client())?;
        answer.in_progress = false;
        let is_held =
            |charged: &&Charged| matches!(charged.decision, Word::Granted | Word::Unmetered);
        let Some(charged) = charged.filter(is_held) else {
            // The ledger decides again on a charge that it did not record. An earlier answer stays with its own charge.
            if answer.body.is_none() {
                kept.forget(key);
                kept.order.retain(|one| one != key);
            }
            return None;
        };
        // Without a kept answer, as after a restart, the grant that the ledger repeats becomes the answer.
        if charged.repeated && answer.body.is_some() {
            return answer.body.clone();
        }
        answer.body = serde_json::to_vec(charged).ok().map(Bytes::from);
        None
    }
}

impl IdempotencyKey {
    fn of_client(&self) -> (String, String) {
        (self.client.clone(), self.id.1.clone())
    }
}

impl KeptAnswers {
    fn forget(&mut self, key: &IdempotencyKey) {
        self.by_key.remove(&key.of_client());
        self.ids.remove(&key.id);
    }

    fn forget_oldest(&mut self) {
        while self.order.len() > MOST {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            match self.by_key.get(&oldest.of_client()) {
                // Forgetting it would let its key charge again meanwhile. One more answer than the most is kept until the next
                // request.
                Some(answer) if answer.in_progress => {
                    self.order.push_back(oldest);
                    return;
                }
                Some(_) | None => self.forget(&oldest),
            }
        }
    }
}
