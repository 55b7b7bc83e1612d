//! Checks of lists that stop at what is known.

use crate::document::Document;
use crate::{Config, Job, PageKind, Recurs, Step, StopAtKnown};

/// A list stops at what is known only where it is the same one in every pass and is read to its end now and then.
pub fn stops(config: &Config, document: &Document<'_>) {
    for job in &config.jobs {
        for (at, step) in job.steps.iter().enumerate() {
            let at = at.to_string();
            let path = ["jobs", &job.name, "steps", &at, "stop_at_known"];
            if let Some(stop) = &step.stop_at_known {
                let reason = contradicts(job, step).or_else(|| outlives(job, stop));
                if let Some((below, expected, instead)) = reason {
                    document.refuse(&[&path, below].concat(), expected, instead);
                }
            }
        }
    }
}

/// Where a value is wrong, what was expected, and what to write instead.
type Reason = (&'static [&'static str], String, String);

/// What keeps a list from stopping.
fn contradicts(job: &Job, step: &Step) -> Option<Reason> {
    let refuse = |expected: String, instead: &str| Some((&[][..], expected, instead.to_owned()));
    if step.ids.is_some() {
        return refuse(
            "a step with `ids` reads each list to its end".to_owned(),
            "remove the key, or list the parents as `regions`",
        );
    }
    if step.call.paging.kind == PageKind::None {
        return refuse(
            format!(
                "a list of {} has one page, so there is nothing to stop before",
                step.call.name
            ),
            "remove the key, or write `page` into the call",
        );
    }
    if step.call.paging.lasting.is_some() {
        return refuse(
            "a list with `page.lasting` names only what changed".to_owned(),
            "remove the key",
        );
    }
    if step.max_pages.is_some() {
        return refuse(
            "`max_pages` ends the list before its end, so the pages behind that would never be known".to_owned(),
            "remove one of the two",
        );
    }
    let time = job.time_of(step)?;
    refuse(
        format!("the step names {time}, so its list is another one in every pass"),
        "remove the key, or the parameter that contains the time",
    )
}

/// Whether records behind the page at which passes stop would be deleted before the next pass reads them.
fn outlives(job: &Job, stop: &StopAtKnown) -> Option<Reason> {
    let keep = job.credential.upstream.keep?;
    let most = keep.saturating_sub(job.every.unwrap_or_default());
    let is_kept = match stop.complete_every {
        Recurs::Every(span) => span <= most,
        Recurs::Never => false,
    };
    let instead = match most.is_zero() {
        true => "raise `keep`, or remove it".to_owned(),
        false => format!(
            "write at most {:?}, which is `keep` less the `every` of the job, or raise `keep`",
            humantime::format_duration(most).to_string()
        ),
    };
    (!is_kept).then(|| {
        (
            &["complete_every"][..],
            "`keep` of the upstream deletes records that no response contained for so long, and these are behind the page at which \
            passes stop"
                .to_owned(),
            instead,
        )
    })
}
