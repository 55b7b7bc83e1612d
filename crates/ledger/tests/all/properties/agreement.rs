//! Every ledger answers as the model does, whatever it is told and in whatever order, with clocks that go back too.

use std::sync::Arc;

use ingest_ledger::Ledger;
use ingest_quota::{ChargeId, Entry, Timestamp};

use super::cases::{Event, Story, account_of, moved};
use crate::Store;
use crate::books::{Books, entry, floor, id};
use crate::model::Model;

pub(crate) async fn with_the_model(ledger: &Arc<dyn Ledger>, story: Story) {
    let account = account_of(&story.limits);
    let model = Books::new(Model::open().await.ledger(), account.clone());
    let told = Books::new(Arc::clone(ledger), account);
    let (mut now, mut latest) = (story.start, story.start);
    for (nth, (step, event)) in story.events.iter().enumerate() {
        now = moved(now, *step);
        latest = latest.max(now);
        let earliest_floor = earliest_floor(&told, latest);
        assert_eq!(
            tell(&told, event, now, earliest_floor).await,
            tell(&model, event, now, earliest_floor).await,
            "event {nth} at {now}"
        );
    }
    assert_eq!(
        told.usage(now).await,
        model.usage(now).await,
        "at last, at {now}"
    );
}

/// A floor that comes between charges that are recorded as one counts all of them after it, which the model does not (L11a).
fn earliest_floor(books: &Books, latest: Timestamp) -> Timestamp {
    match books.account.forgets_ids() {
        true => latest,
        false => Timestamp::from_micros(i64::MIN),
    }
}

/// Tells one event, and gives the answer as text.
async fn tell(books: &Books, event: &Event, now: Timestamp, earliest_floor: Timestamp) -> String {
    match event {
        Event::Charge { id, cost, leave } => {
            format!("{:?}", books.decide(&named(*id), cost, leave, now).await)
        }
        Event::Settle { id, cost } => format!("{:?}", books.settle(&named(*id), cost, now).await),
        Event::Absorb { entries, floors } => {
            let entries: Vec<Entry> = entries
                .iter()
                .map(|(id, later, cost)| entry(&named(*id), moved(now, *later), cost.clone()))
                .collect();
            let floors: Vec<_> = floors
                .iter()
                .map(|(limit, later, used)| {
                    floor(limit, moved(now, *later).max(earliest_floor), *used)
                })
                .collect();
            format!("{:?}", books.absorb(&entries, &floors, now).await)
        }
        Event::CloseUntil { limit, .. }
        | Event::CloseProbing { limit }
        | Event::CloseCopied { limit, .. } => {
            format!("{:?}", books.close(limit, event.closing(now), now).await)
        }
        Event::Reopen { limit } => format!("{:?}", books.reopen(limit, now).await),
        Event::Usage => format!("{:?}", books.usage(now).await),
    }
}

fn named(number: u8) -> ChargeId {
    id(&format!("id-{number}"))
}
