//! What goes wrong with the upstream and with Redis.

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::place::Place;
use crate::redis::Mishap;
use crate::tally::Tally;

/// What the upstream was told to do.
pub(crate) struct Faults {
    /// Whether it calls a limit spent, which closes it for longer than a chapter.
    pub(crate) closes: bool,
}

const FAULTS: [&str; 17] = [
    r#"{ "status": 500 }"#,
    r#"{ "answer": "backend", "status": 503 }"#,
    r#"{ "answer": "drop" }"#,
    r#"{ "answer": "half_body" }"#,
    r#"{ "answer": "endless" }"#,
    r#"{ "answer": "no_body" }"#,
    r#"{ "answer": "html" }"#,
    r#"{ "answer": "list" }"#,
    r#"{ "answer": "null_records" }"#,
    r#"{ "answer": "same_cursor" }"#,
    r#"{ "answer": "bad_cursor" }"#,
    r#"{ "answer": "plain_error" }"#,
    r#"{ "answer": "slow_down", "headers": { "retry-after": "0" } }"#,
    r#"{ "answer": "denied" }"#,
    r#"{ "delay_ms": 300 }"#,
    r#"{ "delay_ms": 1500 }"#,
    r#"{ "answer": "spent" }"#,
];

pub(crate) fn of_upstream(place: &Place, chance: &mut Chance, tally: &Tally) -> Faults {
    let mut closes = false;
    while chance.once_in(2) {
        tally.count("upstream faults");
        let mut fault: Value = serde_json::from_str(chance.one_of(&FAULTS)).unwrap();
        closes |= fault["answer"] == "spent";
        fault["times"] = json!(1 + chance.below(4));
        fault["after"] = json!(chance.below(10));
        place.tell_sandbox("POST", "faults", &fault);
    }
    Faults { closes }
}

/// One thing that befalls Redis while runs are at it.
pub(crate) fn of_redis(place: &mut Place, chance: &mut Chance, tally: &Tally) {
    let loses = place.books.loses_data() && chance.once_in(4);
    let mishap = if loses {
        chance.one_of(&[Mishap::Flush, Mishap::Rollback, Mishap::Wipe])
    } else if chance.once_in(2) {
        chance.one_of(&Mishap::HARMLESS)
    } else {
        return;
    };
    let (before, span, much) = (
        chance.millis_below(100),
        chance.millis_below(500),
        chance.below(40),
    );
    let Some(redis) = &mut place.redis else {
        return;
    };
    std::thread::sleep(before);
    tally.count(if loses {
        "losses of Redis"
    } else {
        "faults of Redis"
    });
    redis.suffer(mishap, span, much);
}
