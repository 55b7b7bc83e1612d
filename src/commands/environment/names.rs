//! What the command line names: credentials, accounts, regions, jobs, kinds.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Environment;
use crate::cli::{RunArgs, Shown};
use crate::commands::Error;
use crate::commands::names::{
    account_named, named, unknown, unknown_region, unknown_region_to_both, unknown_to_both,
};
use crate::run::{Selection, accounts};
use ingest_config::{Call, Credential, Etag, Ids, Job, Region, Step};
use ingest_quota::Account;

const ALL: &str = "all";

const NO_REGIONS: &str = "no regions given; write --region all, or name some: --region US,GB";

impl Environment {
    /// The credential of a name that the command line has.
    pub fn credential(&self, name: &str) -> Result<&Arc<Credential>, Error> {
        named("credential", &self.config.credentials, name)
    }

    /// The call of a name that the command line has.
    pub fn call<'a>(&self, credential: &'a Credential, name: &str) -> Result<&'a Arc<Call>, Error> {
        named("call", &credential.upstream.calls, name)
    }

    /// The account of a name that the command line has, and that has the limit that it names.
    pub fn account_with(&self, name: &str, limit: &str) -> Result<Arc<Account>, Error> {
        let account = account_named(&self.accounts(), name)?;
        named("limit", &account.limits, limit)?;
        Ok(account)
    }

    /// Rejects an account, and a limit of it or of any, that the configuration lacks: nothing would ever be found.
    #[cfg(feature = "serve")]
    pub fn expect_limit(&self, account: Option<&str>, limit: Option<&str>) -> Result<(), Error> {
        let mut accounts = self.accounts();
        if let Some(name) = account {
            accounts = vec![account_named(&accounts, name)?];
        }
        let known: BTreeSet<&str> = accounts
            .iter()
            .flat_map(|account| account.limits.keys().map(String::as_str))
            .collect();
        match limit.filter(|limit| !known.contains(limit)) {
            None => Ok(()),
            Some(limit) => Err(unknown("limit", limit, known.into_iter())),
        }
    }

    /// Returns the accounts of all credentials, each once.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        accounts(self.config.credentials.values())
    }

    /// Rejects a kind that no call returns, because nothing would ever be found.
    pub fn expect_kind(&self, kind: &str) -> Result<(), Error> {
        let known = self.config.kinds();
        match known.contains(kind) {
            true => Ok(()),
            false => Err(unknown("kind of record", kind, known.into_iter())),
        }
    }

    /// Rejects jobs and regions that the configuration lacks.
    pub fn expect_shown(&self, shown: &Shown) -> Result<(), Error> {
        self.jobs(&shown.jobs)?;
        let mut regions = shown.regions.iter();
        regions.try_for_each(|region| self.expect_region(region))
    }

    /// Rejects jobs and regions that neither the configuration nor the catalog has: it keeps what was fetched after the
    /// configuration has them no longer.
    pub async fn expect_stored(&self, jobs: &[String], regions: &[String]) -> Result<(), Error> {
        let is_defined = jobs.iter().all(|job| self.defines(job))
            && regions.iter().all(|region| self.walks(region));
        if is_defined {
            return Ok(());
        }
        let passes = self.reader().await?.jobs_and_regions().await?;
        let stored_jobs: BTreeSet<&str> = passes.iter().map(|(job, _)| &**job).collect();
        let stored_regions: BTreeSet<&str> = passes.iter().map(|(_, region)| &**region).collect();
        for job in jobs {
            if !self.defines(job) && !stored_jobs.contains(&**job) {
                let known = self.config.jobs.iter().map(|job| &*job.name);
                return Err(unknown_to_both("job", job, known.collect(), stored_jobs));
            }
        }
        for code in regions {
            if !self.walks(code) && !stored_regions.contains(&**code) {
                return Err(unknown_region_to_both(&self.config, code, &stored_regions));
            }
        }
        Ok(())
    }

    /// Rejects a region that no job walks, because nothing would ever be found. Batches are listed under `*`.
    fn expect_region(&self, code: &str) -> Result<(), Error> {
        match self.walks(code) {
            true => Ok(()),
            false => Err(unknown_region(&self.config, code)),
        }
    }

    fn walks(&self, code: &str) -> bool {
        let mut walked = self.config.jobs.iter().flat_map(|job| &job.regions);
        code == Region::SHARED || walked.any(|region| region.code == code)
    }

    fn defines(&self, job: &str) -> bool {
        self.config.job(job).is_some()
    }

    /// Returns all jobs, each with all of its regions.
    pub fn all_jobs(&self) -> Selection {
        let jobs = self.config.jobs.iter();
        jobs.map(|job| (Arc::clone(job), job.regions.clone()))
            .collect()
    }

    /// Returns the jobs that request ids, over the region of their batches. Slices have batches of their own.
    pub fn batches(&self) -> Selection {
        let requests_ids = |job: &&Arc<Job>| {
            job.slices.is_none() && job.steps.iter().any(|step| step.ids.is_some())
        };
        let jobs = self.config.jobs.iter().filter(requests_ids);
        jobs.map(|job| (Arc::clone(job), vec![Arc::new(Region::shared())]))
            .collect()
    }

    /// Returns the selected jobs and their regions.
    pub fn select(&self, args: &RunArgs) -> Result<Selection, Error> {
        let all = [ALL.to_owned()];
        let regions = match &*args.regions {
            [] if args.dry_run || self.practising || self.has_no_region() => &all,
            [] => return Err(Error::Usage(NO_REGIONS.to_owned())),
            given => given,
        };
        let selection = self.select_of(regions, &args.jobs)?;
        Ok(match args.relist {
            true => selection
                .into_iter()
                .map(|(job, regions)| (Arc::new(relisting(&job)), regions))
                .collect(),
            false => selection,
        })
    }

    /// Whether no job is walked for regions.
    fn has_no_region(&self) -> bool {
        let mut walked = self.config.jobs.iter().flat_map(|job| &job.regions);
        walked.all(|region| region.code == Region::NONE)
    }

    /// Returns the selected regions (or `all`) of the selected jobs; of all jobs if none is named.
    pub fn select_of(&self, regions: &[String], jobs: &[String]) -> Result<Selection, Error> {
        let jobs = self.jobs(jobs)?;
        for region in regions.iter().filter(|region| *region != ALL) {
            if jobs
                .iter()
                .all(|job| job.regions.iter().all(|known| known.code != *region))
            {
                return Err(unknown_region(&self.config, region));
            }
        }
        let selected = |region: &&Arc<Region>| {
            regions
                .iter()
                .any(|name| name == ALL || *name == region.code)
        };
        let of_job = |job: &Arc<Job>| job.regions.iter().filter(selected).cloned().collect();
        Ok(jobs
            .into_iter()
            .map(|job| (Arc::clone(&job), of_job(&job)))
            .collect())
    }

    fn jobs(&self, names: &[String]) -> Result<Vec<Arc<Job>>, Error> {
        let known = || self.config.jobs.iter().map(|job| &*job.name);
        if let Some(missing) = names
            .iter()
            .find(|wanted| known().all(|name| name != *wanted))
        {
            return Err(unknown("job", missing, known()));
        }
        let wanted = |job: &&Arc<Job>| names.is_empty() || names.contains(&job.name);
        Ok(self.config.jobs.iter().filter(wanted).cloned().collect())
    }
}

/// Returns the job as `--relist` walks it: due or not, with nothing that was fetched before in the place of a request.
fn relisting(job: &Job) -> Job {
    let step = |step: &Step| Step {
        call: Arc::new(Call {
            etag: Etag::Unused,
            ..(*step.call).clone()
        }),
        ids: step.ids.as_ref().map(|ids| Ids {
            fresh_for: None,
            ..ids.clone()
        }),
        ..step.clone()
    };
    Job {
        relists: true,
        steps: job.steps.iter().map(step).collect(),
        ..job.clone()
    }
}
