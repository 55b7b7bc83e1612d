//! Runs the stories of `tests/cases/stories.txt`: each step is an operation of a ledger, with the expected answer.

use std::collections::BTreeMap;
use std::time::Duration;

use ingest_quota::{
    Account, Calendar, ChargeId, Closing, Cost, Counting, Decision, Limit, LimitName, LimitUsage,
    Period, Timestamp, Units, Window,
};
use strum::VariantArray;

use crate::Store;
use crate::books::{
    Books, GRACE, LOS_ANGELES, MICROSECOND, account, at, entry, floor, fresh_id, time,
};

const STORIES: &str = include_str!("../../cases/stories.txt");

pub(crate) async fn every_story_is_answered_as_it_is_written(store: &impl Store) {
    let mut wrong = Vec::new();
    for (name, steps) in stories(STORIES) {
        if let Err(complaint) = tell(store, &steps).await {
            wrong.push(format!("{name}: {complaint}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub(crate) async fn a_story_that_is_answered_otherwise_is_found(store: &impl Store) {
    for wrong in [
        "0: take daily=11",
        "0: reject daily=10",
        "0: take daily=4 => left daily=7",
        "0: take daily=4 => repeated",
        "0: used daily=1",
        "0: never daily=4",
        "0: standing daily => closed 5",
        "0: returns daily => 5=1",
    ] {
        let steps = ["limits daily=10/60s", wrong];
        assert!(tell(store, &steps).await.is_err(), "{wrong}");
    }
}

/// The stories of a text, each with its name and its steps.
fn stories(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut stories: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix("    "), stories.last_mut()) {
            (Some(step), Some((_, steps))) => steps.push(step),
            _ if line.is_empty() => {}
            _ => stories.push((line, Vec::new())),
        }
    }
    stories
}

/// Tells the steps of one story; the first that is answered otherwise is named.
async fn tell(store: &impl Store, steps: &[&str]) -> Result<(), String> {
    let mut books = Books::new(store.ledger(), account([]));
    let mut accounts: BTreeMap<&str, String> = BTreeMap::new();
    for step in steps {
        let words: Vec<&str> = step.split_whitespace().collect();
        match words.as_slice() {
            ["limits", limits @ ..] => books.account = with_limits(account([]).name, limits),
            ["account", name, limits @ ..] => {
                let name = accounts.entry(name).or_insert_with(|| account([]).name);
                books.account = with_limits(name.clone(), limits);
            }
            _ => {
                let (instants, told) = step.split_once(": ").unwrap();
                for now in moments(instants) {
                    let answered = answer(&books, told, now).await;
                    answered.map_err(|otherwise| format!("{step}: {otherwise}"))?;
                }
            }
        }
    }
    Ok(())
}

fn with_limits(name: String, limits: &[&str]) -> Account {
    let limits = limits.iter().map(|text| {
        let (name, rule) = text.split_once('=').unwrap();
        (name.to_owned(), limit(rule))
    });
    Account {
        name,
        limits: limits.collect(),
    }
}

/// `10/60s`, `10/day`, `10/12h+day`, and `10/1h/60` in parts.
fn limit(rule: &str) -> Limit {
    let mut parts = rule.split('/');
    let quota = parts.next().unwrap().parse().unwrap();
    let (mut sliding, mut calendar) = (None, None);
    for span in parts.next().unwrap().split('+') {
        let period = Period::VARIANTS.iter().find(|one| one.to_string() == span);
        match period {
            Some(period) => calendar = Some(Calendar::new(LOS_ANGELES, *period)),
            None => sliding = Some(duration(span)),
        }
    }
    let counting = parts.next().map_or(Counting::Exact, |parts| {
        Counting::Buckets(parts.parse().unwrap())
    });
    let window = Window::new(sliding, calendar).unwrap();
    Limit::new(
        Units::new(quota),
        Units::ZERO,
        window.counted(counting).unwrap(),
    )
    .unwrap()
}

/// The instants of a step: one, or `from INSTANT every DURATION N times`.
fn moments(text: &str) -> Vec<Timestamp> {
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        ["from", first, "every", step, times, "times"] => {
            let (first, step) = (instant(first), duration(step));
            let times: u32 = times.parse().unwrap();
            (0..times).map(|nth| first + step * nth).collect()
        }
        _ => vec![instant(text)],
    }
}

/// Seconds or a time, and what is added or taken away: `60+g-1us`.
fn instant(text: &str) -> Timestamp {
    let start = match text.find('Z') {
        Some(end) => end + 1,
        None => text[1..].find(['+', '-']).map_or(text.len(), |end| end + 1),
    };
    let (start, mut rest) = text.split_at(start);
    let mut instant = match start.ends_with('Z') {
        true => time(start),
        false => at(start.parse().unwrap()),
    };
    while !rest.is_empty() {
        let end = rest[1..].find(['+', '-']).map_or(rest.len(), |end| end + 1);
        let span = duration(&rest[1..end]);
        instant = match rest.starts_with('+') {
            true => instant + span,
            false => instant - span,
        };
        rest = &rest[end..];
    }
    instant
}

fn duration(text: &str) -> Duration {
    let unit = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let number = text[..text.len() - unit.len()].parse().unwrap_or(1);
    let one = match unit {
        "g" => GRACE,
        "us" => MICROSECOND,
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        "d" => Duration::from_secs(24 * 3600),
        _ => panic!("no duration: {text}"),
    };
    one * number
}

fn cost(text: &str) -> Cost {
    let components = text.split(',').filter(|text| *text != "nothing");
    let components = components.map(|component| {
        let (limit, units) = component.split_once('=').unwrap();
        (limit.to_owned(), Units::new(units.parse().unwrap()))
    });
    components.collect()
}

/// Tells one step, and compares what is answered with what stands behind `=>`.
async fn answer(books: &Books, step: &str, now: Timestamp) -> Result<(), String> {
    let (told, expected) = step.split_once(" => ").unwrap_or((step, ""));
    let words: Vec<&str> = told.split(' ').collect();
    let expected: Vec<&str> = expected
        .split(' ')
        .filter(|word| !word.is_empty())
        .collect();
    match words.as_slice() {
        ["settle", id, settled] => books.settle(&ChargeId::new(*id), &cost(settled), now).await,
        ["absorb", told @ ..] => absorb(books, told, now).await,
        ["reopen", limit] => books.reopen(limit, now).await,
        ["close", limit, "probing"] => books.close(limit, Closing::Probing, now).await,
        ["close", limit, "until", until] => {
            let closing = Closing::Until(instant(until));
            books.close(limit, closing, now).await;
        }
        ["close", limit, "copied", until, interval] => {
            let (until, interval) = (instant(until), duration(interval));
            let closing = Closing::Copied { until, interval };
            books.close(limit, closing, now).await;
        }
        ["used", units] => {
            for (limit, units) in cost(units).iter() {
                same("used", books.used(limit, now).await, units.get())?;
            }
        }
        ["standing", limit] => stands(&books.standing(limit, now).await, &expected)?,
        ["returns", limit] => {
            let returns = books.standing(limit, now).await.returns;
            let told = returns.iter().map(|back| (back.at, back.units.get()));
            let written = expected.iter().filter(|word| **word != "nothing");
            let written = written.map(|word| {
                let (at, units) = word.split_once('=').unwrap();
                (instant(at), units.parse().unwrap())
            });
            same("returns", told.collect(), written.collect::<Vec<_>>())?;
        }
        [verb, told @ ..] => charge(books, verb, told, &expected, now).await?,
        [] => panic!("{step}"),
    }
    Ok(())
}

async fn absorb(books: &Books, told: &[&str], now: Timestamp) {
    let (mut entries, mut floors) = (Vec::new(), Vec::new());
    for told in told {
        let (id, rest) = told.split_once('@').unwrap();
        let (at, units) = rest.rsplit_once(':').unwrap();
        let (at, units) = (instant(at), cost(units));
        match id {
            "floor" => {
                let units = units.iter();
                floors.extend(units.map(|(limit, units)| floor(limit, at, units.get())));
            }
            _ => entries.push(entry(&ChargeId::new(id), at, units)),
        }
    }
    books.absorb(&entries, &floors, now).await;
}

/// A charge: `take`, `reject`, `never`, `refuse` or `fits`, `ID` if it has one, its cost, and `leaving` what it leaves.
async fn charge(
    books: &Books,
    verb: &str,
    told: &[&str],
    expected: &[&str],
    now: Timestamp,
) -> Result<(), String> {
    let (told, leave) = match told {
        [told @ .., "leaving", leave] => (told, cost(leave)),
        _ => (told, Cost::none()),
    };
    let (id, units) = match told {
        [id, units] => (ChargeId::new(*id), cost(units)),
        [units] => (fresh_id(), cost(units)),
        _ => panic!("{told:?}"),
    };
    if verb == "fits" {
        let [_, first] = expected else {
            panic!("{expected:?}")
        };
        let first = instant(first);
        for early in [now, first - MICROSECOND] {
            let rejected = books.reject_leaving(&units, &leave, early).await;
            same("retry", rejected.retry_at, first)?;
            same("after", rejected.retry_after, first.since(early))?;
        }
        let decision = books.decide(&id, &units, &leave, first).await;
        return same("fits", matches!(decision, Decision::Granted(_)), true);
    }
    let decision = books.decide(&id, &units, &leave, now).await;
    match (verb, &decision) {
        ("refuse", Decision::TakenBack) => Ok(()),
        ("take", Decision::Granted(grant)) => expectations(expected, |word, said| match word {
            "new" | "repeated" => same(word, grant.repeated, word == "repeated"),
            "left" => cost(said).iter().try_for_each(|(limit, units)| {
                same(word, grant.remaining.get(limit).copied(), Some(units))
            }),
            "probing" => {
                let probing = said.split(',').filter(|text| *text != "nothing");
                let probing = probing.map(|text| {
                    let (limit, interval) = text.split_once('=').unwrap();
                    (limit.to_owned(), duration(interval))
                });
                let probing: BTreeMap<LimitName, Duration> = probing.collect();
                same(word, &grant.probing, &probing)
            }
            _ => Err(format!("{word} is no answer")),
        }),
        ("reject", Decision::Rejected(rejection)) => {
            expectations(expected, |word, said| match word {
                "by" => same(word, rejection.limit.as_str(), said),
                "used" => same(word, rejection.used.get(), said.parse().unwrap()),
                "remaining" => same(word, rejection.remaining.get(), said.parse().unwrap()),
                "retry" => same(word, rejection.retry_at, instant(said)),
                "after" => same(
                    word,
                    rejection.retry_after.as_secs_f64(),
                    said.parse().unwrap(),
                ),
                _ => Err(format!("{word} is no answer")),
            })
        }
        ("never", Decision::Never { limit, most }) => {
            expectations(expected, |word, said| match word {
                "by" => same(word, limit.as_str(), said),
                "most" => same(word, most.get(), said.parse().unwrap()),
                _ => Err(format!("{word} is no answer")),
            })
        }
        _ => Err(format!("{decision:?}")),
    }
}

fn stands(usage: &LimitUsage, expected: &[&str]) -> Result<(), String> {
    expectations(expected, |word, said| match word {
        "used" => same(word, usage.used.get(), said.parse().unwrap()),
        "remaining" => same(word, usage.remaining.get(), said.parse().unwrap()),
        "open" => same(word, usage.closed_until, None),
        "closed" => same(word, usage.closed_until, Some(instant(said))),
        "since" => same(
            word,
            usage.since_reset,
            Some(Units::new(said.parse().unwrap())),
        ),
        _ => Err(format!("{word} is no answer")),
    })
}

/// Each expectation is a word, and most have what is said of it behind them.
fn expectations(
    expected: &[&str],
    mut meets: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), String> {
    let mut words = expected.iter();
    while let Some(word) = words.next() {
        let is_alone = ["new", "repeated", "open"].contains(word);
        let said = if is_alone { "" } else { words.next().unwrap() };
        meets(word, said)?;
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, told: T, written: T) -> Result<(), String> {
    match told == written {
        true => Ok(()),
        false => Err(format!("{what} {told:?} in place of {written:?}")),
    }
}
