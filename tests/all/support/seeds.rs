//! Worlds from seeds: each is a function of its seed, and one that fails is shrunk.

use std::fmt::Debug;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use serde::Serialize;

/// What a check of a world returns.
pub type Held = Result<(), TestCaseError>;

/// The names of the environment variables of one kind of worlds.
pub struct Variables {
    /// How many worlds a test runs.
    pub count: &'static str,
    /// The seed of the first one.
    pub seed: &'static str,
    /// Whether all seeds that fail are listed, instead of the first one shrunk.
    pub survey: &'static str,
}

impl Variables {
    /// Lives through as many worlds as the environment says, otherwise `usual` ones.
    pub fn live<P: Debug + Serialize>(
        &self,
        usual: u64,
        plans: &impl Strategy<Value = P>,
        live: impl Fn(&P) -> Held,
    ) {
        let first = number(self.seed, 0);
        let survey = std::env::var_os(self.survey).is_some();
        let mut failed = 0;
        for seed in first..first + number(self.count, usual) {
            let mut runner = runner(seed);
            let world = plans.new_tree(&mut runner).unwrap();
            if survey {
                if let Err(why) = live(&world.current()) {
                    failed += 1;
                    let why = why.to_string();
                    eprintln!("seed {seed}: {}", why.chars().take(400).collect::<String>());
                }
            } else if let Err(why) = runner.run_one(world, |plan| live(&plan)) {
                let stored = match &why {
                    TestError::Fail(_, plan) => serde_json::to_string(plan).unwrap(),
                    TestError::Abort(_) => String::new(),
                };
                panic!("{}={seed} {}=1: {why}\n{stored}", self.seed, self.count);
            }
        }
        assert_eq!(failed, 0, "worlds failed");
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// The source of what is random in the world of a seed.
pub fn runner(seed: u64) -> TestRunner {
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}
