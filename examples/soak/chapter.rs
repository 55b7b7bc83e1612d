//! One chapter: a place, rounds of runs under trouble, and a calm end in which everything must agree.

use std::time::Instant;

use serde_json::json;

use crate::chance::Chance;
use crate::place::{Books, Place};
use crate::tally::Tally;
use crate::{calm, trouble};

pub(crate) struct Chapter {
    pub(crate) place: Place,
    pub(crate) chance: Chance,
    rounds: usize,
}

impl Chapter {
    pub(crate) fn new(seed: u64, number: u64, program: &str) -> Self {
        let mut chance = Chance::of(seed, number);
        let books = Books::ALL[usize::try_from(number).unwrap() % Books::ALL.len()];
        let place = Place::new(program, books, &mut chance);
        let rounds = 20 + chance.below(20);
        Self {
            place,
            chance,
            rounds,
        }
    }

    /// Begins no round after `until`.
    pub(crate) fn tell(mut self, until: Instant, tally: &Tally) {
        tally.count("chapters");
        for _ in 0..self.rounds {
            if Instant::now() < until {
                self.round(tally);
            }
        }
        calm::end(&mut self, tally);
    }

    /// Some processes at once, what befalls them, and what holds afterwards.
    fn round(&mut self, tally: &Tally) {
        tally.count("rounds");
        let Self { place, chance, .. } = self;
        let faults = trouble::of_upstream(place, chance, tally);
        let count = if chance.once_in(12) {
            8
        } else {
            1 + chance.below(4)
        };
        let mut running: Vec<_> = (0..count).map(|_| place.start(chance, tally)).collect();
        for process in &mut running {
            std::thread::sleep(chance.millis_below(80));
            process.befall(chance, tally);
        }
        trouble::of_redis(place, chance, tally);
        for process in running {
            process.end(|| place.requests());
        }
        if faults.closes {
            place.reopen();
        }
        place.tell_sandbox("DELETE", "faults", &json!({}));
        place.check(tally);
    }
}
