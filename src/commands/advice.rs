//! Advice of `ingest check` on a valid configuration: a limit that counts exactly undoes the saving of one that counts in
//! buckets; a call that no job uses costs more than a limit holds; a limit that no call charges; ids that count as fetched.

use std::sync::Arc;

use super::figures::count;
use crate::run;
use ingest_config::{Call, Config, Credential, Doubt, Field, Job, Lasting, Region, Step, Variable};
use ingest_quota::{Account, Counting, Limit, LimitName};

/// Advice on a step of a job; `None` where there is none.
type StepAdvice = fn(&Job, &Step) -> Option<String>;

/// Each subject, such as a job, and the advice on it.
pub fn advice(config: &Config) -> Vec<(String, String)> {
    let accounts = run::accounts(config.credentials.values());
    let counting = accounts.iter().filter_map(|account| {
        let advice = counts_exactly(account)?;
        Some((format!("account {}", account.name), advice))
    });
    let credentials = config.credentials.values();
    let never = credentials.flat_map(|credential| never_granted(config, credential));
    let uncharged = config.credentials.values().flat_map(uncharged);
    let on_steps: [StepAdvice; 4] = [cuts, kept, fetched_already, same_for_first];
    let of_steps = on_steps.into_iter().flat_map(|advice| {
        config.steps().filter_map(move |(job, step)| {
            let detail = format!("{}: {}", step.call.name, advice(job, step)?);
            Some((format!("job {}", job.name), detail))
        })
    });
    counting
        .chain(never)
        .chain(uncharged)
        .chain(of_steps)
        .collect()
}

fn same_for_first(job: &Job, step: &Step) -> Option<String> {
    same_for_all(job, step, job.regions.first()?)
}

/// Says so if another region of the job requests the same list as this one.
pub fn same_for_all(job: &Job, step: &Step, region: &Region) -> Option<String> {
    let other = job.regions.iter().find(|other| other.code != region.code)?;
    let request = |region| run::request_of(job, step, region);
    (step.ids.is_none() && request(region) == request(other)).then(|| {
        format!(
            "the request for the region {} is the same: no parameter, path or body contains {{region}} or a value of it, so each region \
            requests the same list",
            other.code
        )
    })
}

/// Advice where `keep` deletes records that are not requested again before that.
fn kept(job: &Job, step: &Step) -> Option<String> {
    let keep = job.credential.upstream.keep?;
    let fresh_for = step.ids.as_ref().and_then(|ids| ids.fresh_for);
    let (why, instead) = match job.every {
        _ if step.call.paging.lasting.is_some() => (
            "a list with `page.lasting` returns what changed only",
            "remove `keep`, or run the job with --relist more often",
        ),
        _ if job.slices.is_some() => ("each slice is fetched once", "remove `keep`"),
        _ if job.names(step, &Variable::Since) && step.ids.is_none() => (
            "a list with {since} returns what is new only",
            "remove `keep`, or run the job with --relist more often",
        ),
        _ if fresh_for.is_some_and(|fresh_for| fresh_for >= keep) => {
            ("`fresh_for` is as long", "raise `keep`")
        }
        Some(every) if every >= keep => ("`every` is as long", "raise `keep`"),
        Some(_) | None => return None,
    };
    Some(format!(
        "`keep` deletes records that no response contained for so long, and {why}; {instead}"
    ))
}

/// Advice where the records that name ids are those that the ids stand for: landing a list counts as fetching its records.
fn fetched_already(job: &Job, step: &Step) -> Option<String> {
    let ids = step.ids.as_ref()?;
    let list = job.credential.upstream.calls.get(&ids.from)?;
    let (list, own) = (list.records.as_ref()?, step.call.records.as_ref()?);
    let is_own_id = matches!(&*list.id, [Field::At(at)] if at == ids.at.at());
    (is_own_id && list.kind == own.kind && ids.at.parent().is_empty()).then(|| {
        let (call, from, kind) = (&step.call.name, &ids.from, &own.kind);
        format!(
            "{from} returns the records of these ids, which are of the same kind, {kind}, so they count as fetched and none \
            is requested; give the records of {call} a `kind` of their own"
        )
    })
}

/// Advice on each limit that no call charges: it holds nothing back.
fn uncharged(credential: &Arc<Credential>) -> impl Iterator<Item = (String, String)> {
    let is_charged = |limit: &LimitName| {
        let mut calls = credential.upstream.calls.values();
        calls.any(|call| call.cost.limits().any(|charged| charged == limit))
    };
    let uncharged = credential
        .limits
        .keys()
        .filter(move |limit| !is_charged(limit));
    uncharged.map(|limit| {
        let detail = format!(
            "no call charges {limit}, so it stops nothing; add it to the `cost` of its calls"
        );
        (format!("credential {}", credential.name), detail)
    })
}

/// Advice on each call that no job uses and that a credential's limits can never hold. One that a job uses is an error.
fn never_granted(config: &Config, credential: &Credential) -> Vec<(String, String)> {
    let is_used = |call: &&Arc<Call>| {
        let steps = config.jobs.iter().filter(|job| {
            let mut credentials = job.credentials();
            credentials.any(|one| one.name == credential.name)
        });
        let mut steps = steps.flat_map(|job| &job.steps);
        steps.any(|step| step.call.name == call.name)
    };
    let calls = credential.upstream.calls.values();
    let exceeded = |call: &Arc<Call>| {
        let (limit, units, most) = call.cost.iter().find_map(|(limit, units)| {
            let most = credential.limits.get(limit)?.limit.enforced();
            (units > most).then_some((limit, units, most))
        })?;
        let what = format!("call {} of credential {}", call.name, credential.name);
        let why = format!(
            "it costs {} {limit}, of which at most {} can be used: it is never granted; lower headroom, or correct the quota or \
            the cost",
            count(units.get()),
            count(most.get())
        );
        Some((what, why))
    };
    // Whether a job uses a call is a look at all jobs, so it is the last question.
    calls
        .filter_map(|call| exceeded(call).filter(|_| !is_used(&call)))
        .collect()
}

/// Advice where `max_pages` can cut a list that names `{since}`, or has the cursor of the next pass at its end: what it leaves out
/// is on no later list, or on each.
fn cuts(job: &Job, step: &Step) -> Option<String> {
    let most = step.max_pages?;
    let what = match &step.call.paging.lasting {
        _ if job.names(step, &Variable::Since) => "names {since}",
        Some(Lasting::At(_)) => "has the cursor of the next pass on its last page",
        Some(Lasting::Last) | None => return None,
    };
    (!step.call.trust.contains(&Doubt::Cut)).then(|| {
        format!(
            "max_pages = {most} can end a list that {what} before its end; the pass is then doubtful, and the next one \
            begins where this one began; remove max_pages, or raise it"
        )
    })
}

/// Advice where an exact limit keeps each charge of an account at least as long as a limit in buckets counts.
fn counts_exactly(account: &Account) -> Option<String> {
    let limits = || account.limits.iter();
    let is_exact = |limit: &Limit| limit.window().counting() == Counting::Exact;
    let span = |limit: &Limit| limit.window().longest();
    let longest = |one: &(&LimitName, &Limit)| span(one.1);
    let (exact, kept) = limits().filter(|one| is_exact(one.1)).max_by_key(longest)?;
    let in_buckets = limits().filter(|one| !is_exact(one.1));
    let (buckets, _) = in_buckets
        .min_by_key(longest)
        .filter(|one| span(one.1) <= span(kept))?;
    Some(format!(
        "{exact} counts exactly, so the ledger keeps each charge by itself as long as {exact} counts it, although {buckets} \
        counts in buckets; write counting = \"buckets\" for {exact} too, if it has no `resets`"
    ))
}
