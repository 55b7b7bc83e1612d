//! Refuses a request that the upstream would not accept, before anything is looked up.

use super::answer::Reply;
use super::refuse::refuse_as;
use super::shape::{PageRange, part_name};
use super::thing::{LONGEST, Thing, region_number};
use super::token;
use super::world::{Question, Span};

/// A refusal, as it is sent.
pub type Refused = Box<Reply>;

impl<'a> Question<'a> {
    /// Refuses what the upstream's parameters do not allow.
    pub fn check(&self) -> Result<(), Refused> {
        let parameters = &self.shape.upstream.parameters;
        let param = |name: &Option<String>| self.request.param(name.as_deref()?);
        if param(&parameters.region).is_some_and(|code| region_number(code).is_none()) {
            return Err(self.refused("bad_region"));
        }
        let filters = &self.shape.call.filters;
        let is_given = |filter: &String| self.request.param(filter).is_some();
        if !filters.is_empty() && !filters.iter().any(is_given) {
            return Err(self.refused("missing_filter"));
        }
        for (name, (values, refusal)) in &parameters.values {
            let value = self.request.param(name);
            if value.is_some_and(|value| !values.iter().any(|one| one == value)) {
                return Err(self.refused(refusal));
            }
        }
        self.check_parent()
    }

    /// Refuses a list of a thing that does not exist, or that has no such list.
    fn check_parent(&self) -> Result<(), Refused> {
        let Some(parent) = &self.shape.call.parent else {
            return Ok(());
        };
        let class = self.shape.class_named(&parent.class);
        let (Some(id), Some(class)) = (self.request.param(&parent.param), class) else {
            return Ok(());
        };
        match Thing::find(class, id, self.world) {
            None => Err(self.refused(&parent.unknown)),
            Some(thing) if thing.chance(class, self.world).of("closed").percent(5) => {
                Err(self.refused(&parent.off))
            }
            Some(_) => Ok(()),
        }
    }

    /// The parts that are requested.
    pub fn parts(&self) -> Result<Vec<&'a str>, Refused> {
        let shape = self.shape;
        let (Some(param), false) = (
            &shape.upstream.parameters.parts,
            shape.call.parts.is_empty(),
        ) else {
            return Ok(Vec::new());
        };
        let Some(requested) = self.request.param(param) else {
            return Err(self.refused("missing_parts"));
        };
        let parts: Vec<&str> = requested.split(',').map(str::trim).collect();
        let exists = |part: &&str| shape.call.parts.keys().any(|key| part_name(key) == *part);
        match parts.iter().all(exists) {
            true => Ok(parts),
            false => Err(self.refused("unknown_part")),
        }
    }

    /// The ids that are requested; `None` where a list is.
    pub fn ids(&self) -> Result<Option<Vec<String>>, Refused> {
        let ids = self.request.ids();
        let most = self
            .shape
            .upstream
            .parameters
            .most_ids
            .unwrap_or(usize::MAX);
        match ids.as_ref().is_some_and(|ids| ids.len() > most) {
            true => Err(self.refused("too_many_ids")),
            false => Ok(ids),
        }
    }

    /// Which things of a list the requested page has.
    pub fn span(&self) -> Result<Span, Refused> {
        let size = self.page_size()?;
        let cursor = self.request.place();
        let token = |cursor: &str| token::decode(cursor, self.list_chance());
        let start = match self.shape.is_generated {
            true => self
                .request
                .route
                .call
                .paging
                .position(cursor.as_deref(), size, token),
            false => cursor.map_or(Some(0), |cursor| token(&cursor)),
        };
        let start = start.ok_or_else(|| self.refused("bad_cursor"))?;
        Ok(Span { start, size })
    }

    /// How many records a page has: what is requested, within the upstream's range.
    pub fn page_size(&self) -> Result<u64, Refused> {
        let Some(PageRange { least, most, usual }) = self.shape.call.page else {
            return Ok(LONGEST);
        };
        let param = self.request.route.size_param();
        let Some(requested) = param.and_then(|param| self.request.page_value(param)) else {
            return Ok(usual);
        };
        let size: Option<u64> = requested.parse().ok();
        // The configuration does not tell the range of the upstream, so a size outside of ours is no mistake of the
        // client.
        if self.shape.is_generated {
            return Ok(size.unwrap_or(usual).clamp(least, most));
        }
        size.filter(|size| (least..=most).contains(size))
            .ok_or_else(|| self.refused("bad_size"))
    }

    fn refused(&self, reason: &str) -> Refused {
        Box::new(refuse_as(self.request, self.shape, reason))
    }
}
