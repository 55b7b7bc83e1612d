//! `ingest try CREDENTIAL CALL`: one request, and what its response contains and does not contain.

mod next_since;
mod report;

use std::sync::Arc;

use self::report::Report;
use super::advice::same_for_all;
use super::environment::Environment;
use super::names::unknown_region;
use super::output::Message;
use super::run::context;
use super::{Error, output, signals};
use crate::cli::{Global, TryArgs};
use crate::exit::Exit;
use crate::review;
use crate::run::{self, Blocked, Context, Credentials, Upstreams, Waits};
use ingest_base::saved_response::SavedResponse;
use ingest_config::{
    Call, Config, Credential, Etag, Job, Leave, Region, SinceValue, Step, Upstream, joined,
};
use ingest_quota::{Cost, Timestamp};
use ingest_upstream as upstream;
use ingest_upstream::{Exchange, Failure, PageRequest, Recorder, ShownRequest};

/// The request that is tried.
struct Tried {
    /// With one attempt per request, and without asking for what is unchanged.
    job: Job,
    step: usize,
    region: Arc<Region>,
    ids: Vec<String>,
    /// Whether a job has this call.
    is_of_job: bool,
}

/// Sends one request, or reads a saved response, and shows what it contains.
pub async fn try_call(global: &Global, args: &TryArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let tried = Tried::find(&environment, args)?;
    let report = match &args.answer {
        Some(file) => {
            let what = format!("cannot read the saved response {}", file.display());
            let saved = SavedResponse::read(file).map_err(Error::io(what))?;
            tried.read(&environment, &saved).await?
        }
        None => tried.send(&environment).await?,
    };
    output::report(global, &report, |_| {
        Message::Result(output::shown_lines(
            &report.text(tried.step().ok().map(|step| &*step.call)),
        ))
    })?;
    Ok(match report.class {
        "page" => Exit::Success,
        "stopped" => Exit::Stopped,
        _ => Exit::Failed,
    })
}

impl Tried {
    /// The first step of a job with this credential that has the call; otherwise the call without parameters.
    fn find(environment: &Environment, args: &TryArgs) -> Result<Self, Error> {
        let config = &environment.config;
        let credential = environment.credential(&args.credential)?;
        let call = environment.call(credential, &args.call)?;
        if call.path.is_none() || call.records.is_none() {
            let name = &call.name;
            return Err(Error::Usage(format!(
                "{name} has no path or no records; it can only be charged"
            )));
        }
        let jobs = config
            .jobs
            .iter()
            .filter(|job| job.credentials().any(|one| one.name == credential.name));
        let steps = jobs.flat_map(|job| (0..).zip(&job.steps).map(move |step| (job, step)));
        let mut having = steps.filter(|(_, (_, step))| step.call.name == call.name);
        let (job, step) = match having.next() {
            Some((job, (index, _))) => (job.with(credential), Some(index)),
            None => (job_of(credential, call, &config.regions), None),
        };
        let region = job.first_slice_of(&region(&job, config, args)?, environment.clock.now());
        let tried = Self {
            step: step.unwrap_or_default(),
            region,
            ids: ids_of(job.steps.get(step.unwrap_or_default()), args),
            is_of_job: step.is_some(),
            job: once(job),
        };
        tried.check(args).map(|()| tried)
    }

    /// Refuses what cannot be requested.
    fn check(&self, args: &TryArgs) -> Result<(), Error> {
        let step = self.step()?;
        let Some(ids) = &step.ids else {
            return Ok(());
        };
        let (parent, given) = (ids.at.parent(), self.ids.len());
        if given == 0 && args.answer.is_none() {
            let with: String = parent
                .iter()
                .map(|at| format!(", and then the value at `{at}`"))
                .collect();
            return Err(Error::Usage(format!(
                "{} requests ids that records of {} contain at `{}`; name them with --id{with}",
                args.call,
                ids.from,
                ids.at.at()
            )));
        }
        // Of the id with all of its values, `ids_of` makes one.
        let is_whole = self.ids.len() == 1 && args.ids.len() == parent.len() + 1;
        if !parent.is_empty() && given > 0 && !is_whole {
            let places: Vec<String> = parent.iter().map(|at| format!("`{at}`")).collect();
            return Err(Error::Usage(format!(
                "{} requests an id with values of its record; name the id with --id, and then each of {} with another --id",
                args.call,
                places.join(", ")
            )));
        }
        Ok(())
    }

    fn step(&self) -> Result<&Step, Error> {
        let step = self.job.steps.get(self.step);
        step.ok_or_else(|| Error::Refused("the step is gone".to_owned()))
    }

    fn credential(&self) -> &Arc<Credential> {
        &self.job.credential
    }

    fn request<'a>(
        &'a self,
        now: Timestamp,
        since: Option<&'a SinceValue>,
        lasting: Option<&'a str>,
    ) -> Result<PageRequest<'a>, Error> {
        Ok(PageRequest {
            step: self.step()?,
            region: &self.region,
            ids: &self.ids,
            cursor: None,
            lasting,
            began: now,
            now,
            since,
            known: None,
        })
    }

    /// Reads a saved response. Nothing is charged.
    async fn read(
        &self,
        environment: &Environment,
        saved: &SavedResponse,
    ) -> Result<Report, Error> {
        let client = self.client(environment)?;
        let since = self.job.since.first.as_ref();
        let request = self.request(environment.clock.now(), since, None)?;
        let exchange = client.read_saved(request, saved).await;
        let mut report = self.report(client.show(request), request, Some(exchange));
        report.notes.extend(self.notes(request));
        Ok(report)
    }

    /// Notes on the request: its `{since}` could not be shifted or formatted, or another region has the same.
    fn notes(&self, request: PageRequest<'_>) -> impl Iterator<Item = String> {
        let since = request.since;
        let unread = since.and_then(|since| review::sent_unread(&self.job, request.step, since));
        let same = same_for_all(&self.job, request.step, &self.region);
        unread.into_iter().chain(same)
    }

    /// Sends the request, charged like any other.
    async fn send(&self, environment: &Environment) -> Result<Report, Error> {
        environment.create_state_dir()?;
        let recorder = Arc::new(Recorder::new(self.client(environment)?));
        let upstream: Arc<dyn upstream::Upstream> = Arc::clone(&recorder) as _;
        let context = self.context(environment, upstream).await?;
        let now = environment.clock.now();
        let since = self.since(&context, now).await?;
        let lasting = self.lasting(&context, now).await?;
        let request = self.request(now, since.as_ref(), lasting.as_deref())?;
        let (fetched, charged) = run::fetch_once(&context, &self.job, request).await;
        context.leases.close().await;
        // Another one, to show the request: the first is the recorder's.
        let client = self.client(environment)?;
        let mut report = self.report(client.show(request), request, recorder.last());
        report.notes.extend(self.notes(request));
        report.charged = Some(charged);
        match fetched {
            Err(mut reason) if report.status.is_none() => {
                report.class = if reason.stop().is_some() {
                    "stopped"
                } else {
                    "not_sent"
                };
                report.message = Some(reason.to_string());
            }
            Ok(_) | Err(_) => {}
        }
        Ok(report)
    }

    /// The value of `{since}` in the next request of a run: for the region, or for the first of the ids.
    async fn since(&self, context: &Context, now: Timestamp) -> Result<Option<SinceValue>, Error> {
        let (catalog, job) = (&context.catalog, &self.job);
        let step = self.step()?;
        if step.ids.is_some() {
            let ids = self.ids.get(..1).unwrap_or_default();
            let sinces = catalog.id_sinces(&job.name, &step.call.name, ids).await?;
            let last = sinces.first();
            let greatest = last.and_then(|last| last.greatest.as_deref());
            let greatest = run::since_of_id(job, greatest);
            return Ok(job.since.value(last.map(|last| last.began), greatest));
        }
        let codes = [self.region.code.clone()];
        let states = catalog.region_states(&job.name, &codes, now).await?;
        let last = states.first().and_then(|state| state.since.as_ref());
        Ok(run::since_of(job, (&self.region, step), last))
    }

    /// The cursor of the last complete pass with which the next one begins: of the region, or of the first of the ids.
    async fn lasting(&self, context: &Context, now: Timestamp) -> Result<Option<String>, Error> {
        let (catalog, job, step) = (&context.catalog, &self.job, self.step()?);
        if step.call.paging.lasting.is_none() {
            return Ok(None);
        }
        if step.ids.is_some() {
            let ids = self.ids.get(..1).unwrap_or_default();
            let sinces = catalog.id_sinces(&job.name, &step.call.name, ids).await?;
            let lasting = sinces.into_iter().find_map(|last| last.lasting);
            let request = run::request_of(job, step, &Region::shared());
            let lasting = lasting.filter(|lasting| lasting.request == request);
            return Ok(lasting.map(|lasting| lasting.cursor));
        }
        let selection = vec![(Arc::new(job.clone()), vec![Arc::clone(&self.region)])];
        let candidates = run::candidates(catalog, &selection, now).await?;
        let candidate = candidates.into_iter().next();
        Ok(candidate.and_then(|mut candidate| candidate.lasting.remove(&self.step)))
    }

    fn client(&self, environment: &Environment) -> Result<upstream::Client, Error> {
        let client = environment.client(self.credential());
        client.map_err(|error| Error::Refused(error.to_string()))
    }

    async fn context(
        &self,
        environment: &Environment,
        upstream: Arc<dyn upstream::Upstream>,
    ) -> Result<Context, Error> {
        let catalog = environment.catalog().await?;
        let upstreams = Upstreams::from([(self.credential().name.clone(), Ok(upstream))]);
        let context = context(environment, catalog, upstreams, run::channel().1).await?;
        // Only now: a signal ends the command at once while it waits for catalog or ledger.
        let waits = Waits::listed();
        let first = "the request in flight is completed first";
        let stop = signals::listen(first, waits.clone())?;
        // Somebody asks by hand, perhaps since the credential was repaired at the upstream.
        let credentials = Credentials::kept_in(environment.state_dir.clone()).asking_always();
        Ok(Context {
            stop,
            waits,
            blocked: Blocked::knowing(credentials),
            ..context
        })
    }

    fn report(
        &self,
        shown: Result<ShownRequest, Failure>,
        request: PageRequest<'_>,
        exchange: Option<Exchange>,
    ) -> Report {
        let mut report = Report {
            job: self.is_of_job.then(|| self.job.name.clone()),
            region: self.region.code.clone(),
            message: shown.as_ref().err().map(Failure::to_string),
            request: shown.ok(),
            class: "not_sent",
            ..Report::default()
        };
        if let Some(exchange) = exchange {
            let tried = review::Tried {
                job: &self.job,
                step: request.step,
                region: request.region,
                ids: &self.ids,
                since: request.since,
                begins_at_cursor: request.lasting.is_some(),
            };
            report.fill(exchange, tried);
        }
        report
    }
}

/// The job of a call that no job has: one step without parameters of its own.
fn job_of(credential: &Arc<Credential>, call: &Arc<Call>, regions: &[Arc<Region>]) -> Job {
    Job {
        since: ingest_config::Since::default(),
        slices: None,
        relists: false,
        name: format!("try {}", call.name),
        credential: Arc::clone(credential),
        fallbacks: Vec::new(),
        regions: regions.to_vec(),
        every: None,
        leave: Leave::Units(Cost::none()),
        resume_within: std::time::Duration::ZERO,
        steps: vec![Step {
            call: Arc::clone(call),
            params: call.params.clone(),
            body: call.body.clone(),
            max_pages: None,
            stop_at_known: None,
            ids: None,
            read_later: Vec::new(),
        }],
    }
}

/// The named region of the job; by default its first one.
fn region(job: &Job, config: &Config, args: &TryArgs) -> Result<Arc<Region>, Error> {
    let Some(code) = &args.region else {
        let first = job.regions.first();
        return Ok(first.map_or_else(|| Arc::new(Region::shared()), Arc::clone));
    };
    let found = job.regions.iter().find(|region| region.code == *code);
    found
        .map(Arc::clone)
        .ok_or_else(|| unknown_region(config, code))
}

/// The ids that are requested. Where an id has values of its record with it, the first is the id, and they follow.
fn ids_of(step: Option<&Step>, args: &TryArgs) -> Vec<String> {
    let ids = step.and_then(|step| step.ids.as_ref());
    let parents = ids.map_or(0, |ids| ids.at.parent().len());
    match args.ids.split_first() {
        Some((id, values)) if parents > 0 && values.len() == parents => {
            vec![joined(id.clone(), values)]
        }
        _ => args.ids.clone(),
    }
}

/// The same job, of whose requests each is sent once and returns the page even if it is unchanged.
fn once(job: Job) -> Job {
    let upstream = Upstream {
        attempts: 1,
        ..(*job.credential.upstream).clone()
    };
    let credential = Credential {
        upstream: Arc::new(upstream),
        ..(*job.credential).clone()
    };
    let whole = |step: Step| Step {
        call: Arc::new(Call {
            etag: Etag::Unused,
            ..(*step.call).clone()
        }),
        ..step
    };
    Job {
        credential: Arc::new(credential),
        steps: job.steps.into_iter().map(whole).collect(),
        ..job
    }
}
