//! Bodies that an upstream sends, with any status and any headers.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use ingest_config::{PageKind, Paging};
use ingest_upstream::Failure;
use proptest::prelude::*;

use crate::{Asking, asking, pointer, token_paging};
use ingest_testing::fuzz::{cases, is_plain, near, text_near};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

fn paging() -> impl Strategy<Value = Paging> {
    let sized = |paging: Paging| Paging {
        size_param: Some("n".to_owned()),
        size: Some(2),
        ..paging
    };
    let total = Some(pointer("/total"));
    prop_oneof![
        Just(token_paging()),
        Just(Paging::default()),
        Just(Paging {
            kind: PageKind::Link,
            ..Paging::default()
        }),
        Just(Paging {
            kind: PageKind::NextUrl,
            next: Some(pointer("/next")),
            ..Paging::default()
        }),
        Just(sized(Paging {
            kind: PageKind::Offset,
            param: Some("o".to_owned()),
            total,
            ..Paging::default()
        })),
        Just(sized(Paging {
            kind: PageKind::Number,
            param: Some("p".to_owned()),
            ..Paging::default()
        })),
    ]
}

fn plain(failure: &Failure) -> bool {
    let said = failure.to_string();
    is_plain(&said) && said.chars().count() < 400
}

/// Whatever comes: records that all have ids, each once, or a failure in one plain line.
#[test]
fn a_changed_answer_is_a_page_or_a_failure() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let answer = Arc::new(Mutex::new(StubAnswer::status(200)));
    let answering = Arc::clone(&answer);
    let stub = StubUpstream::start(move |_| answering.lock().unwrap().clone());
    let asking: Asking = asking(&stub.url());
    let client = asking.client();
    let status = prop_oneof![4 => Just(200_u16), 1 => 200_u16..600];
    let any = (
        near("answer"),
        status,
        paging(),
        text_near("link"),
        text_near("retry_after"),
        text_near("token"),
    );
    proptest!(cases(2), |((body, status, paging, link, wait, cursor) in any)| {
        let headers = [("link", link), ("retry-after", wait)];
        let fit = headers.into_iter().filter(|(_, value)| value.bytes().all(|byte| byte >= b' ' && byte != 127));
        *answer.lock().unwrap() =
            fit.fold(StubAnswer::status(status).body(body), |answer, (name, value)| answer.header(name, &value));
        let asking = asking.clone().paging(paging).cursor(Some(cursor));
        match runtime.block_on(asking.fetch_by(&client)) {
            Ok(page) => {
                let distinct: HashSet<_> = page.records.iter().map(|record| &record.id).collect();
                prop_assert_eq!(distinct.len(), page.records.len());
                prop_assert!(page.records.iter().all(|record| !record.id.contains('\0')));
                prop_assert!(page.skipped == 0 || !page.records.is_empty());
                prop_assert!(page.next.is_none_or(|next| !next.is_empty()));
            }
            Err(failure) => prop_assert!(plain(&failure), "{:?}", failure),
        }
    });
}
