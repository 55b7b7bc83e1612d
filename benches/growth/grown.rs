//! What something takes at each size, the exponent between each two sizes, and whether it grows faster than it may.

use comfy_table::Table;

use super::place::figures::table;

/// The largest exponent of what may grow with a size: the logarithm that a search in a tree adds is below it.
const MOST: f64 = 1.15;
/// The largest exponent, from the smallest size to the largest, of what must not depend on a size.
const MOST_WITHOUT: f64 = 0.1;
/// Seconds that the processors' time of a small command varies by; what a command takes above nothing counts as no less.
const NOISE: f64 = 0.005;
/// So many statements more are a batch that is begun, or one that another size fills.
const FEW_STATEMENTS: f64 = 3.0;
/// So often something is measured that seems to grow too fast.
const TURNS: usize = 3;

/// Whether something may grow with a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grows {
    With,
    Not,
}

impl Grows {
    pub const fn with(may: bool) -> Self {
        if may { Self::With } else { Self::Not }
    }
}

/// What it took once.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// Of the processors: of the program, and of what the servers executed for it.
    pub seconds: f64,
    pub megabytes: f64,
    /// Statements and scripts that servers executed.
    pub statements: f64,
}

/// The least of two tries, since others on the same processors only add to it; of memory the most.
fn least((one, other): (Vec<Taken>, Vec<Taken>)) -> Vec<Taken> {
    let pairs = one.into_iter().zip(other);
    let least = pairs.map(|(one, other)| Taken {
        seconds: one.seconds.min(other.seconds),
        // The kernel's count can lag behind, never ahead.
        megabytes: one.megabytes.max(other.megabytes),
        statements: one.statements.min(other.statements),
    });
    least.collect()
}

/// One of what was taken at each size.
fn of(all: &[Vec<Taken>], nth: usize) -> Vec<Taken> {
    all.iter().map(|taken| taken[nth]).collect()
}

/// What is measured, and what of it may grow.
pub struct Rule<'a> {
    pub name: &'a str,
    pub over: &'a str,
    pub time: Grows,
    pub statements: Grows,
}

/// Tables of what was measured, and what grows too fast.
pub struct Growth {
    times: Vec<usize>,
    /// What the program takes for nothing, in seconds.
    nothing: f64,
    table: Table,
    too_fast: Vec<String>,
}

impl Growth {
    pub fn new(times: &[usize], nothing: f64) -> Self {
        Self {
            times: times.to_vec(),
            nothing,
            table: table(HEADS),
            too_fast: Vec::new(),
        }
    }

    /// Measures at each size, the least of some tries; if something grows too fast, the least of twice and thrice as many.
    pub fn measure(
        &mut self,
        rules: &[Rule<'_>],
        tries: usize,
        mut take: impl FnMut(usize) -> Vec<Taken>,
    ) {
        let mut all: Vec<Vec<Taken>> = Vec::new();
        for _ in 0..TURNS {
            // In turns, so that what others do meanwhile meets all sizes.
            for _ in 0..tries {
                let taken: Vec<Vec<Taken>> = (0..self.times.len()).map(&mut take).collect();
                all = match all.is_empty() {
                    true => taken,
                    false => all.into_iter().zip(taken).map(least).collect(),
                };
            }
            let mut each = rules.iter().enumerate();
            if each.all(|(nth, rule)| self.faults(rule, &of(&all, nth)).is_empty()) {
                break;
            }
        }
        for (nth, rule) in rules.iter().enumerate() {
            self.add(rule, &of(&all, nth));
        }
    }

    pub fn add(&mut self, rule: &Rule<'_>, all: &[Taken]) {
        self.too_fast.extend(self.faults(rule, all));
        let mut cells = vec![rule.name.to_owned(), rule.over.to_owned()];
        for figure in &FIGURES {
            let (unit, digits) = figure.shown;
            let values: Vec<f64> = all.iter().map(figure.of).collect();
            let shown = values.iter().map(|one| format!("{:.digits$}", one * unit));
            cells.push(shown.collect::<Vec<_>>().join(", "));
            let exponents = self.exponents(&values).into_iter();
            let mut exponents: Vec<_> = exponents.map(|one| format!("{one:.2}")).collect();
            if (figure.grows)(rule) == Grows::Not {
                exponents.push(format!("all {:.2}", self.in_all(&values)));
            }
            cells.push(exponents.join(", "));
        }
        self.table.add_row(cells);
    }

    /// Prints what was measured since the last time.
    pub fn print(&mut self) {
        println!("{}", std::mem::replace(&mut self.table, table(HEADS)));
    }

    /// Fails if something grows too fast.
    pub fn end(self) {
        assert!(
            self.too_fast.is_empty(),
            "grow too fast:\n{}",
            self.too_fast.join("\n")
        );
    }

    fn faults(&self, rule: &Rule<'_>, all: &[Taken]) -> Vec<String> {
        let faults = FIGURES.iter().filter_map(|figure| {
            let values: Vec<f64> = all.iter().map(figure.of).collect();
            let is_noise = values[values.len() - 1] <= values[0] + figure.noise;
            let (exponent, most) = match (figure.grows)(rule) {
                Grows::Not => (self.in_all(&values), MOST_WITHOUT),
                Grows::With => {
                    let of_nothing = if figure.name == "time" {
                        self.nothing
                    } else {
                        0.0
                    };
                    let above = values
                        .iter()
                        .map(|one| (one - of_nothing).max(figure.noise));
                    let exponents = self.exponents(&above.collect::<Vec<_>>());
                    (exponents.last().copied().unwrap_or_default(), MOST)
                }
            };
            let Rule { name, over, .. } = rule;
            let figure = figure.name;
            (exponent > most && !is_noise)
                .then(|| format!("{name}, {over}: the {figure} has {exponent:.2} of {most}"))
        });
        faults.collect()
    }

    /// The exponent between each two sizes.
    fn exponents(&self, values: &[f64]) -> Vec<f64> {
        let sizes = self
            .times
            .windows(2)
            .map(|pair| pair[1] as f64 / pair[0] as f64);
        let grown = values.windows(2).map(|pair| pair[1] / pair[0]);
        sizes
            .zip(grown)
            .map(|(size, grown)| exponent(size, grown))
            .collect()
    }

    /// The exponent from the smallest size to the largest.
    fn in_all(&self, values: &[f64]) -> f64 {
        let (first, last) = (0, self.times.len() - 1);
        let size = self.times[last] as f64 / self.times[first] as f64;
        exponent(size, values[last] / values[first])
    }
}

/// One figure of what was taken.
struct Figure {
    name: &'static str,
    of: fn(&Taken) -> f64,
    grows: fn(&Rule<'_>) -> Grows,
    /// What it is multiplied with where it is shown, and the digits.
    shown: (f64, usize),
    /// A difference that says nothing.
    noise: f64,
}

const FIGURES: [Figure; 3] = [
    Figure {
        name: "time",
        of: |one| one.seconds,
        grows: |rule| rule.time,
        shown: (1e3, 1),
        noise: NOISE,
    },
    Figure {
        name: "memory",
        of: |one| one.megabytes,
        grows: |rule| rule.time,
        shown: (1.0, 0),
        noise: 1.0,
    },
    Figure {
        name: "statements",
        of: |one| one.statements,
        grows: |rule| rule.statements,
        shown: (1.0, 0),
        noise: FEW_STATEMENTS,
    },
];

fn exponent(size: f64, grown: f64) -> f64 {
    let exponent = grown.ln() / size.ln();
    // Nothing does not grow.
    if exponent.is_finite() { exponent } else { 0.0 }
}

const HEADS: &[&str] = &[
    "what",
    "over more",
    "ms of processors",
    "exponents",
    "MB",
    "exponents",
    "statements",
    "exponents",
];
