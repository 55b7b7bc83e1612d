//! Which things a list holds, and in which order.

use std::cmp::Reverse;

use super::draw::published;
use super::thing::{LONGEST, Thing, ThingList, region_number};
use super::world::Question;
use ingest_quota::Timestamp;

/// A region that a request does not name.
const USUAL_REGION: &str = "US";
/// A list has at most this many things of a region's chart.
const MOST_CHARTED: u64 = 100;

impl Question<'_> {
    /// The things of the list that is requested.
    pub fn things(&self) -> Vec<Thing> {
        let (own, sections) = self.sections();
        let mut things: Vec<Thing> = sections
            .into_iter()
            .flat_map(|(list, count)| list.things(count))
            .collect();
        // Otherwise the things of all regions would begin every list, and two regions would share their whole first
        // page.
        if self.shape.call.list.shared > 0 {
            let order = self.world.of("sequence").of(&format!("{own:?}"));
            things.sort_by_cached_key(|thing| thing.chance(&self.shape.class, order).bits());
        }
        self.keep_requested_time(&mut things);
        things
    }

    /// The list's own part, and all its parts with how many things each has.
    fn sections(&self) -> (ThingList, Vec<(ThingList, u64)>) {
        let listing = &self.shape.call.list;
        let total = self.total.unwrap_or(self.shape.call.total).min(LONGEST);
        let percent = |share: u64| total.saturating_mul(share) / 100;
        let (shared, charted) = (
            percent(listing.shared),
            percent(listing.charted).min(MOST_CHARTED),
        );
        let rest = total.saturating_sub(shared).saturating_sub(charted);
        if self.shape.is_generated {
            let own = ThingList::named(&self.request.list(), self.world);
            return (own, vec![(ThingList::SHARED, shared), (own, rest)]);
        }
        let (region, question) = (self.region(), self.question());
        let list = |region| ThingList::new(region, question.as_deref(), self.world);
        let chart = ThingList::new(region, None, self.world);
        let sections = vec![(list(0), shared), (chart, charted), (list(region), rest)];
        (list(region), sections)
    }

    /// What the list is about; `None` for a region's chart.
    fn question(&self) -> Option<String> {
        let call = &self.shape.call;
        let about = call.list.about.as_ref().unwrap_or(&call.filters);
        let values = about.iter().map(|name| {
            let value = self.request.param(name).unwrap_or_default();
            format!("{name}={value}&")
        });
        let is_chart = call.list.about.as_ref().is_some_and(Vec::is_empty);
        (!is_chart).then(|| values.collect())
    }

    fn region(&self) -> u32 {
        let param = self.shape.upstream.parameters.region.as_deref();
        let code = param.and_then(|param| self.request.param(param));
        region_number(code.unwrap_or(USUAL_REGION)).unwrap_or_default()
    }

    /// Removes what was published at another time, and sorts by time where the request says so.
    fn keep_requested_time(&self, things: &mut Vec<Thing>) {
        let parameters = &self.shape.upstream.parameters;
        let at = |thing: &Thing| published(thing.chance(&self.shape.class, self.world));
        let time = |param: &Option<String>| {
            let text = param.as_ref().and_then(|param| self.request.param(param));
            text.and_then(Timestamp::parse)
        };
        let (after, before) = (time(&parameters.after), time(&parameters.before));
        if after.is_some() || before.is_some() {
            things.retain(|thing| {
                let at = at(thing);
                after.is_none_or(|after| at >= after) && before.is_none_or(|before| at < before)
            });
        }
        let newest = parameters.newest.as_ref();
        if newest.is_some_and(|(name, value)| self.request.param(name) == Some(value)) {
            things.sort_by_cached_key(|thing| Reverse(at(thing)));
        }
    }
}
