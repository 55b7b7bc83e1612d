//! What a request must be like: all that is wrong with one is found here, before anything is looked up.

use super::refusal::{bad_parameter, no, refuse};
use super::resource::PageRange;
use super::thing::{Class, Place, Thing};
use super::{Question, Refused};
use crate::sandbox::chance::Chance;
use crate::sandbox::refusal::Refusal;
use crate::sandbox::token;

impl<'a> Question<'a> {
    /// The parts that are asked for.
    pub fn parts(self) -> Result<Vec<&'a str>, Refused> {
        if self.resource.parts.is_empty() {
            return Ok(Vec::new());
        }
        let Some(asked) = self.asked.param("part") else {
            return Err(missing("The parameter 'part' is required.", Some("part")));
        };
        let parts: Vec<&str> = asked.split(',').map(str::trim).collect();
        let known = |part: &&str| {
            self.resource
                .parts
                .keys()
                .any(|known| known.split('?').next() == Some(*part))
        };
        match parts.iter().find(|part| !known(part)) {
            Some(unknown) => {
                let said = format!("Unknown part '{unknown}'.");
                Err(Box::new(no(
                    400,
                    "unknownPart",
                    "youtube.part",
                    &said,
                    Some("part"),
                )))
            }
            None => Ok(parts),
        }
    }

    pub fn region(self) -> Result<Place, Refused> {
        let Some(code) = self.asked.param("regionCode") else {
            return Ok(Place::parse("US").unwrap_or(Place::EVERYWHERE));
        };
        let refused = || {
            Box::new(bad_parameter(
                "invalidRegionCode",
                "regionCode",
                "Unknown region code.",
            ))
        };
        Place::parse(code).ok_or_else(refused)
    }

    /// One of the filters must be there, and hold what exists.
    pub fn filtered(self) -> Result<(), Refused> {
        let filters = &self.resource.filters;
        if !filters.is_empty()
            && !filters
                .iter()
                .any(|filter| self.asked.param(filter).is_some())
        {
            return Err(missing(
                &format!("One of {} is required.", filters.join(", ")),
                None,
            ));
        }
        if self
            .asked
            .param("chart")
            .is_some_and(|chart| chart != "mostPopular")
        {
            let said = "Unknown chart.";
            return Err(Box::new(no(
                400,
                "videoChartNotFound",
                "youtube.video",
                said,
                Some("chart"),
            )));
        }
        self.not_off()
    }

    fn not_off(self) -> Result<(), Refused> {
        let Some(off) = &self.resource.may_be_off else {
            return Ok(());
        };
        let Some(parent) = self.asked.param(&off.param) else {
            return Ok(());
        };
        let refused = |status, reason: &str, said: &str| {
            Err(Box::new(no(
                status,
                reason,
                &off.domain,
                said,
                Some(&off.param),
            )))
        };
        match Thing::find(Class::Video, parent, self.world) {
            None => refused(404, &off.unknown, "The video does not exist."),
            Some(video) if video.chance(self.world).of("off").percent(5) => {
                refused(403, &off.off, "Comments are disabled for this video.")
            }
            Some(_) => Ok(()),
        }
    }

    /// How many items a page may hold: what is asked for, within its range.
    pub fn page_size(self) -> Result<Option<u64>, Refused> {
        let Some(PageRange { least, most, usual }) = self.resource.page else {
            return Ok(None);
        };
        let Some(asked) = self.asked.param("maxResults") else {
            return Ok(Some(usual));
        };
        let size = asked
            .parse()
            .ok()
            .filter(|size| (least..=most).contains(size));
        let said = format!("'maxResults' must be in the range [{least}, {most}].");
        size.map(Some)
            .ok_or_else(|| Box::new(bad_parameter("invalidParameter", "maxResults", &said)))
    }

    pub fn start(self, list: Chance) -> Result<u64, Refused> {
        let Some(token) = self.asked.param("pageToken") else {
            return Ok(0);
        };
        token::decode(token, list).ok_or_else(|| Box::new(refuse(&Refusal::BadCursor)))
    }
}

fn missing(said: &str, param: Option<&str>) -> Refused {
    Box::new(no(
        400,
        "missingRequiredParameter",
        "youtube.parameter",
        said,
        param,
    ))
}
