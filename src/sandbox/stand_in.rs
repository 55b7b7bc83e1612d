//! Who answers for an upstream: what knows it well, or what knows its configuration.

use super::answer::{Answer, Ending};
use super::asked::Asked;
use super::chance::Chance;
use super::fault::{self, Mishap};
use super::generic;
use super::refusal::Refusal;
use super::youtube::{self, Resource, Resources};
use crate::quota::Cost;

/// Answers for every upstream.
#[derive(Debug)]
pub struct StandIn {
    resources: Resources,
    world: Chance,
    failure_rate: f64,
}

impl StandIn {
    pub fn new(seed: u64, failure_rate: f64) -> serde_json::Result<Self> {
        Ok(Self {
            resources: Resources::read()?,
            world: Chance::new(seed),
            failure_rate,
        })
    }

    /// What a request is answered that fits the quota, `attempt`s of it told apart. `total` takes the place of how much a
    /// list holds, `known` is the `ETag` of what the client has.
    pub fn answer(
        &self,
        asked: &Asked<'_>,
        attempt: u64,
        total: Option<u64>,
        known: Option<&str>,
    ) -> Answer {
        match fault::mishap(self.world, self.failure_rate, &asked.page(), attempt) {
            Some(Mishap::Backend(status)) => self.refuse(asked, &Refusal::Backend(status)),
            Some(Mishap::Drop) => Answer::text(503, "").ending(Ending::Dropped),
            None => self.good(asked, total).unless_known(known),
        }
    }

    fn good(&self, asked: &Asked<'_>, total: Option<u64>) -> Answer {
        match self.resource(asked) {
            Some(resource) => youtube::answer(resource, asked, self.world, total),
            None => generic::answer(asked, self.world, total),
        }
    }

    pub fn refuse(&self, asked: &Asked<'_>, refusal: &Refusal) -> Answer {
        match self.resource(asked) {
            Some(_) => youtube::refuse(refusal),
            None => generic::refuse(&asked.route.upstream, refusal),
        }
    }

    /// How many ids are asked for.
    pub fn ids(&self, asked: &Asked<'_>) -> usize {
        match self.resource(asked) {
            Some(_) => asked.param("id").map_or(0, |ids| ids.split(',').count()),
            None => asked.ids().map_or(0, |ids| ids.len()),
        }
    }

    /// What a request truly costs.
    pub fn cost(&self, asked: &Asked<'_>) -> Cost {
        generic::cost(asked, self.world)
    }

    /// Whether its answers tell in headers what is left of the quota, as many upstreams' do.
    pub fn tells_what_is_left(&self, asked: &Asked<'_>) -> bool {
        self.resource(asked).is_none()
    }

    fn resource(&self, asked: &Asked<'_>) -> Option<&Resource> {
        self.resources.of(asked.route)
    }
}
