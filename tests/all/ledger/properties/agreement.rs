//! Every ledger answers as the model does, whatever it is told and in whatever order, with clocks that go back too.

use std::sync::Arc;

use ingest::ledger::Ledger;
use ingest::quota::{ChargeId, Entry, Timestamp};

use super::cases::{Event, Story, account_of, moved};
use crate::ledger::Store;
use crate::ledger::books::{Books, entry, floor, id};
use crate::ledger::model::Model;

pub(crate) async fn with_the_model(ledger: &Arc<dyn Ledger>, story: Story) {
    let account = account_of(&story.limits);
    let model = Books::new(Model::open().await.ledger(), account.clone());
    let told = Books::new(Arc::clone(ledger), account);
    let mut now = story.start;
    for (nth, (step, event)) in story.events.iter().enumerate() {
        now = moved(now, *step);
        assert_eq!(
            tell(&told, event, now).await,
            tell(&model, event, now).await,
            "event {nth} at {now}"
        );
    }
    assert_eq!(
        told.usage(now).await,
        model.usage(now).await,
        "at last, at {now}"
    );
}

/// Tells one event, and gives the answer as text.
async fn tell(books: &Books, event: &Event, now: Timestamp) -> String {
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
                .map(|(limit, later, used)| floor(limit, moved(now, *later), *used))
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
