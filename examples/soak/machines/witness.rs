//! What must hold after each round, seen from the upstream, from the rows of the leases, and from the catalog.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::super::tally::Tally;
use super::place::{Asked, OWNERS, PAGES, Place, ROWS};

/// A pass of batches may stay open, without anything that it waits for: the next run ends it.
pub(super) const UNFINISHED: &str =
    "select count(*) from shared.pass where finished_at is null and region <> '*'";

/// A process of a round that has ended.
pub(super) struct Ended {
    pub(super) machine: usize,
    pub(super) pid: i64,
    pub(super) killed: Option<SystemTime>,
    /// Its exit code and report; `None` where a signal ended it.
    pub(super) said: Option<(i32, Value)>,
}

/// A lease from its beginning to its end.
#[derive(Debug)]
struct Term {
    region: String,
    pid: i64,
    holder: String,
    from: f64,
    until: f64,
    /// Whether its holder released it; otherwise it expired.
    released: bool,
}

/// What a round left behind.
pub(super) struct Round<'a> {
    pub(super) place: &'a Place,
    pub(super) name: &'a str,
    /// By their numbers.
    pub(super) ended: &'a HashMap<usize, Ended>,
    pub(super) asked: &'a [Asked],
    pub(super) lagged: bool,
    /// The last pass before the round.
    pub(super) last_pass: i64,
    /// The requests that the catalog counted before the round.
    pub(super) counted: i64,
}

impl Round<'_> {
    pub(super) fn check(&self, tally: &Tally) {
        let terms = self.terms();
        self.check_catalog();
        self.check_repeats(&terms, tally);
        if !self.lagged {
            self.check_turns(&terms, tally);
            self.check_counts(tally);
        }
        let kept = (0..self.place.machines).map(|machine| self.place.state(machine));
        for state in kept {
            assert!(
                !state.join("unlanded.jsonl").exists(),
                "a page is still kept"
            );
        }
    }

    fn rows(&self, sql: &str) -> Vec<tokio_postgres::Row> {
        let sql = sql.replace("{regions}", &format!("^r{}x[0-9]+$", self.name));
        self.place.primary().rows(&sql)
    }

    fn number(&self, sql: &str) -> i64 {
        self.rows(sql)[0].get(0)
    }

    /// The catalog's rows of the round, for whoever has to find out why something does not hold.
    pub(super) fn dump(&self) -> String {
        let sql = "select concat_ws(' ', pass.id, region, outcome, pages, records, requests, (select string_agg(concat_ws('/', step, page, cursor, landed_at::time(3)), ', ' order by step, page) from checkpoint
            where pass = pass.id), (select string_agg(step || ':' || n, ', ') from (select step, count(*) n from listing where pass = pass.id group by step) listed)) from pass where id > {last} order by id"
            .replace("{last}", &self.last_pass.to_string())
            .replace("from checkpoint", "from shared.checkpoint")
            .replace("from listing", "from shared.listing")
            .replace("from pass", "from shared.pass");
        let passes = self.rows(&sql);
        let passes: Vec<String> = passes.iter().map(|row| row.get(0)).collect();
        let terms = self.terms();
        let asked: Vec<String> = self
            .asked
            .iter()
            .map(|one| {
                format!(
                    "{:.3} {} {:?}",
                    seconds(one.arrived) % 60.0,
                    self.who(one),
                    one.what
                )
            })
            .collect();
        let ended: Vec<String> = self
            .ended
            .iter()
            .map(|(number, one)| {
                format!(
                    "{number} ({}) killed {:?}: {:?}",
                    one.pid,
                    one.killed.map(|at| seconds(at) % 60.0),
                    one.said
                        .as_ref()
                        .map(|(code, said)| (code, said.to_string()))
                )
            })
            .collect();
        let terms: Vec<String> = terms
            .iter()
            .map(|term| {
                format!(
                    "{} {} holder {} {:.3} to {:.3} {}",
                    term.region,
                    term.pid,
                    term.holder,
                    term.from % 60.0,
                    term.until % 60.0,
                    if term.released { "released" } else { "expired" }
                )
            })
            .collect();
        format!("passes {passes:#?}\nrequests {asked:#?}\nprocesses {ended:#?}\nterms {terms:#?}")
    }

    fn check_catalog(&self) {
        let regions = self.place.regions;
        let rows = regions * PAGES * ROWS;
        let passes = self.rows("select region, outcome from shared.pass where region ~ '{regions}' and coalesce(outcome, '') <> 'failed'");
        let outcomes: Vec<(String, Option<String>)> =
            passes.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert!(
            outcomes.len() == regions
                && outcomes
                    .iter()
                    .all(|(_, outcome)| outcome.as_deref() == Some("complete")),
            "each region is walked once: {outcomes:?}"
        );
        let of = |table: &str| {
            format!(
                "from shared.{table} join shared.pass on pass.id = {table}.pass where region ~ '{{regions}}' and step = 0"
            )
        };
        let stored = |kind: &str| {
            let (round, records) = (self.name, "from shared.record where kind =");
            format!(
                "count(*) {records} '{kind}' and id like 'r{round}%-%' and id ~ '^r{round}(x[0-9]+)?-'"
            )
        };
        let (listing, checkpoint) = (of("listing"), of("checkpoint"));
        let counts = [
            (format!("count(*) {listing} and outcome = 'complete'"), rows),
            (
                format!("count(distinct listing.id) {listing} and outcome = 'complete'"),
                rows,
            ),
            (format!("count(*) {checkpoint}"), regions * PAGES),
            (
                format!("count(*) {checkpoint} and page = 3 and cursor is null"),
                regions,
            ),
            (stored("row"), rows),
            (stored("thing"), rows.min(OWNERS)),
            (
                "count(*) from shared.lease where expires_at > clock_timestamp()".to_owned(),
                0,
            ),
        ];
        assert_eq!(self.number(UNFINISHED), 0, "passes are open");
        for (what, expected) in counts {
            assert_eq!(
                self.number(&format!("select {what}")),
                expected as i64,
                "{what}"
            );
        }
    }

    /// The terms of the round's leases, by the server's clock.
    fn terms(&self) -> Vec<Term> {
        let from = self
            .asked
            .iter()
            .map(|asked| seconds(asked.arrived))
            .fold(1e10, f64::min);
        let mut terms: Vec<Term> = Vec::new();
        let rows = self.rows(&format!(
            "select region, process, holder::text, extract(epoch from at)::float8, extract(epoch from expires_at)::float8
            from audit.lease where job = 'rows' and (region ~ '{{regions}}' or region = '*' and at > to_timestamp({})) order by at",
            from - 10.0
        ));
        for row in rows {
            let (region, pid, holder): (String, i64, String) = (row.get(0), row.get(1), row.get(2));
            let (at, until): (f64, f64) = (row.get(3), row.get(4));
            let known = terms
                .iter_mut()
                .find(|one| one.region == region && one.holder == holder);
            let released = until <= at + 0.005;
            match known {
                Some(one) => (one.until, one.released) = (until, released),
                None => terms.push(Term {
                    region,
                    pid,
                    holder,
                    from: at,
                    until,
                    released,
                }),
            }
        }
        terms
    }

    /// Every page and id that was requested again, and why.
    fn check_repeats(&self, terms: &[Term], tally: &Tally) {
        let mut by_what: HashMap<&str, Vec<&Asked>> = HashMap::new();
        for asked in self.asked {
            for what in &asked.what {
                by_what.entry(what).or_default().push(asked);
            }
        }
        for (what, all) in by_what {
            for pair in all.windows(2) {
                match self.why_again(pair[0], pair[1], terms) {
                    Some(why) => {
                        let what = pair[0].region.as_ref().map_or("ids", |_| "pages");
                        tally.count(&format!("{what} again: {why}"));
                    }
                    None => panic!(
                        "{what} is requested twice, by {} and by {}\nterms {:#?}\nrequests {all:#?}\nreports {:#?}",
                        self.who(pair[0]),
                        self.who(pair[1]),
                        self.terms_of(pair[0], terms),
                        all.iter()
                            .map(|one| &self.ended[&one.process].said)
                            .collect::<Vec<_>>(),
                    ),
                }
            }
        }
    }

    fn who(&self, asked: &Asked) -> String {
        let number = asked.process;
        match self.ended.get(&number) {
            Some(ended) => format!(
                "process {number} ({} on machine {})",
                ended.pid, ended.machine
            ),
            None => format!("process {number}, which has not ended"),
        }
    }

    fn terms_of<'t>(&self, asked: &Asked, terms: &'t [Term]) -> Vec<&'t Term> {
        let region = asked.region.as_deref().unwrap_or("*");
        terms.iter().filter(|term| term.region == region).collect()
    }

    /// Why a request that another one follows brought no page to the catalog; `None` where it should have.
    fn why_again(&self, first: &Asked, second: &Asked, terms: &[Term]) -> Option<&'static str> {
        let ended = &self.ended[&first.process];
        if self.lagged {
            return Some("after a failover (M16)");
        }
        if first.process == second.process {
            return None;
        }
        let went_on = self.asked.iter().any(|later| {
            first.region.is_some()
                && later.process == first.process
                && later.region == first.region
                && later.arrived > first.arrived
        });
        if went_on {
            return None;
        }
        if ended.killed.is_some_and(|at| at >= first.arrived) {
            return Some("their run was killed");
        }
        let arrived = seconds(first.arrived);
        let of_first = self.terms_of(first, terms).into_iter().rev();
        let term = of_first
            .into_iter()
            .find(|term| term.pid == ended.pid && term.from <= arrived);
        if term.is_some_and(|term| !term.released) {
            return Some("their lease was lost (M12)");
        }
        let report = ended
            .said
            .as_ref()
            .map(|(_, said)| said.to_string())
            .unwrap_or_default();
        let kept = report.contains("the page is kept in");
        kept.then_some("kept on their machine (M33)")
    }

    /// One process at a time walks a region, or fetches batches.
    fn check_turns(&self, terms: &[Term], tally: &Tally) {
        let mut by_region: HashMap<&str, Vec<&Asked>> = HashMap::new();
        for asked in self.asked {
            by_region
                .entry(asked.region.as_deref().unwrap_or("*"))
                .or_default()
                .push(asked);
        }
        for (region, all) in by_region {
            let mut done: Vec<usize> = Vec::new();
            for pair in all.windows(2) {
                let (first, second) = (pair[0], pair[1]);
                if first.process == second.process {
                    continue;
                }
                let overlap = first
                    .answered
                    .is_none_or(|answered| answered > second.arrived);
                assert!(
                    !overlap,
                    "{region} is walked by {} and {} at once\nterms {:#?}\nrequests {all:#?}",
                    self.who(first),
                    self.who(second),
                    self.terms_of(first, terms)
                );
                done.push(first.process);
                assert!(
                    region == "*" || !done.contains(&second.process),
                    "{region} is walked again by {}: {all:#?}",
                    self.who(second)
                );
            }
        }
        for asked in self.asked {
            let pid = self.ended[&asked.process].pid;
            let at = seconds(asked.arrived);
            let own = self
                .terms_of(asked, terms)
                .into_iter()
                .filter(|term| term.pid == pid && term.from <= at);
            let until = own.map(|term| term.until).fold(0.0, f64::max);
            assert!(until > 0.0, "{asked:?} was requested without a lease");
            if at > until {
                tally.count("requests that arrived after the lease of their region ended");
                tally.most(
                    "(ms) lateness of such a request",
                    ((at - until) * 1e3) as u64,
                );
            }
        }
    }

    /// The catalog counts each request, except those of a process that was killed before it could. A pass of batches may
    /// have begun in the round before: all passes count.
    fn check_counts(&self, tally: &Tally) {
        let all = "select coalesce(sum(requests), 0)::bigint from shared.pass";
        let counted = self.number(all) - self.counted;
        let killed = self
            .ended
            .values()
            .filter(|one| one.killed.is_some())
            .count();
        let missing = self.asked.len() as i64 - counted;
        assert!(
            missing >= 0 && (missing == 0 || killed > 0),
            "the upstream saw {} requests, the catalog counts {counted}",
            self.asked.len()
        );
        for _ in 0..missing {
            tally.count("requests of killed runs that no pass counts");
        }
    }
}

fn seconds(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs_f64()
}
