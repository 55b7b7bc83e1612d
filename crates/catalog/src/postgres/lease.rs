//! Leases for the machines that share a catalog: a row for each resource, with the time at which it expires.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::connection::{Parameter, Postgres};
use super::error::PostgresError;
use super::stored::{restored, stored};
use super::terms::{Held, Terms};
use crate::{CatalogError, HeldLease, Holder, Lease, Leases, Resource, Taken, Term};
use ingest_base::clock::{Deadline, Monotonic};
use ingest_quota::Timestamp;

/// The table. A row is never deleted, so that its term only rises; it is logged, so that a crash does not empty it. The server's
/// clock decides alone when a lease expires. `term` is part of a unique key for the sake of `fence`.
pub const TABLE: &str = "
create table lease (
    job text not null,
    region text not null,
    holder uuid not null,
    machine text not null,
    process bigint not null,
    term bigint not null,
    length interval not null,
    taken_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (job, region),
    unique (job, region, term)
);

create function take_lease(
    in_schema text, of_job text, of_region text, by_holder uuid, by_machine text, by_process bigint, seconds double precision,
    out machine text, out process bigint, out taken_at timestamptz, out expires_at timestamptz, out term bigint)
language plpgsql set enable_seqscan to off set jit to off set plan_cache_mode to force_generic_plan as $$
begin
    perform set_config('search_path', quote_ident(in_schema), true);
    -- Another process can take it in between, and release it again.
    for attempt in 1 .. 2 loop
        -- A lease that another process holds is only read: its row would otherwise be locked, which is written to the disk.
        select lease.machine, lease.process, lease.taken_at, lease.expires_at into machine, process, taken_at, expires_at
            from lease where lease.job = of_job and lease.region = of_region and lease.holder <> by_holder
                and lease.expires_at > clock_timestamp();
        exit when found;
        insert into lease (job, region, holder, machine, process, term, length, taken_at, expires_at)
            values (of_job, of_region, by_holder, by_machine, by_process, 1, make_interval(secs => seconds),
                clock_timestamp(), clock_timestamp() + make_interval(secs => seconds))
            on conflict on constraint lease_pkey do update set holder = excluded.holder, machine = excluded.machine,
                process = excluded.process, term = lease.term + 1, length = excluded.length,
                taken_at = clock_timestamp(), expires_at = clock_timestamp() + excluded.length
            where lease.expires_at <= clock_timestamp() or lease.holder = excluded.holder
            returning lease.term into term;
        exit when found;
    end loop;
end
$$;
";
/// Takes a lease. Returns another process's lease, or the term; neither where other processes took it meanwhile.
const TAKE: &str = "select * from {}.take_lease($7, $1, $2, $3, $4, $5, $6)";

const ALL: &str = "select job, region, machine, process, taken_at, expires_at from {}.lease
    where expires_at > clock_timestamp() order by job, region";
const RENEW: &str = "update {}.lease as lease set expires_at = clock_timestamp() + length
    from unnest($1::text[], $2::text[], $3::bigint[]) as held (job, region, term)
    where lease.job = held.job and lease.region = held.region and lease.term = held.term
        and lease.holder = $4 and lease.expires_at > clock_timestamp()
    returning lease.job, lease.region";
const RELEASE: &str = "update {}.lease as lease set expires_at = clock_timestamp()
    from unnest($1::text[], $2::text[], $3::bigint[]) as held (job, region, term)
    where lease.job = held.job and lease.region = held.region and lease.term = held.term
        and lease.holder = $4 and lease.expires_at > clock_timestamp()";

/// The longest time that the last releases of a process may take.
// A run ends within 10 s of a signal, whatever the database does.
const LAST_RELEASES: Duration = Duration::from_secs(5);

/// The most leases that one statement releases.
const RELEASED_AT_ONCE: usize = 1_000;

/// Leases as rows of the catalog.
pub struct RowLeases {
    postgres: Postgres,
    terms: Arc<Terms>,
    holder: Uuid,
    length: Duration,
    releases: mpsc::UnboundedSender<Release>,
    renewal: AbortHandle,
}

enum Release {
    /// The process needs this one no more.
    One(Term),
    /// The process ends: answer when nothing is left to release.
    All(oneshot::Sender<()>),
}

impl RowLeases {
    /// The leases of this process in a database, each for `length` after it was confirmed. Must be called within a runtime, for the
    /// task that renews them.
    #[must_use]
    pub fn new(database: &Postgres, length: Duration) -> Self {
        let (releases, requests) = mpsc::unbounded_channel();
        let (postgres, terms) = (database.clone(), Arc::clone(database.terms()));
        let renewal = Renewal {
            postgres: database.with_one_connection(),
            terms: Arc::clone(&terms),
            length,
        };
        let holder = Uuid::now_v7();
        Self {
            postgres,
            terms,
            holder,
            length,
            releases,
            renewal: tokio::spawn(renewal.run(holder, requests)).abort_handle(),
        }
    }

    async fn try_take(&self, resource: &Resource) -> Result<Taken, PostgresError> {
        let (job, region) = (job_of(resource), region_of(resource));
        let Holder {
            machine, process, ..
        } = Holder::this_process();
        let (process, length) = (i64::from(process), self.length.as_secs_f64());
        let schema = self.postgres.schema();
        let parameters: [Parameter<'_>; 7] = [
            (&job, Type::TEXT),
            (&region, Type::TEXT),
            (&self.holder, Type::UUID),
            (&machine, Type::TEXT),
            (&process, Type::INT8),
            (&length, Type::FLOAT8),
            (&schema, Type::TEXT),
        ];
        let take = qualified(TAKE, &self.postgres);
        let (rows, began) = self.answered(&take, &parameters).await?;
        let Some(row) = rows.first() else {
            return Ok(Taken::Held(None));
        };
        if let Some(number) = row.try_get(4)? {
            let term = Term {
                resource: resource.clone(),
                holder: self.holder,
                number,
            };
            return Ok(Taken::Granted(self.lease(term, began)));
        }
        let is_held = row.try_get::<_, Option<&str>>(0)?.is_some();
        let holder = is_held.then(|| holder(row, 0)).transpose()?;
        Ok(Taken::Held(holder))
    }

    /// Runs a statement, and again where no answer came in time, for as long as a lease that it took first would be trusted. The
    /// same holder takes a lease once more, so a take whose answer was lost is repeated. So is one that met the first take of the
    /// same resource: the clause for conflicts covers one of the two unique keys. Returns when the answered attempt began.
    async fn answered(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<(Vec<Row>, Monotonic), PostgresError> {
        let first = Monotonic::now();
        let mut attempt = 1;
        loop {
            let began = Monotonic::now();
            let done = self
                .postgres
                .autocommit(sql, parameters, patience(self.length));
            match done.await {
                Err(PostgresError::Silent(_)) if first.elapsed() < self.trust() => {}
                Err(error) if attempt == 1 && (error.ends_connection() || error.is_duplicate()) => {
                }
                done => return Ok((done?, began)),
            }
            attempt += 1;
        }
    }

    fn lease(&self, term: Term, began: Monotonic) -> Lease {
        let held = Held::new(Some(term.clone()), began);
        self.terms.held.lock().insert(term.resource.clone(), held);
        Lease::new(Guard {
            term,
            terms: Arc::clone(&self.terms),
            releases: self.releases.clone(),
        })
    }

    /// How long a lease is trusted after it was confirmed.
    fn trust(&self) -> Duration {
        // The last quarter lies between the last request of this machine and the first of another one.
        self.length * 3 / 4
    }
}

/// A quarter of a lease's length: what one renewal, or the answer to one, may take.
fn patience(length: Duration) -> Duration {
    (length / 4).max(Duration::from_secs(1))
}

#[async_trait]
impl Leases for RowLeases {
    async fn take(&self, resource: &Resource) -> Result<Taken, CatalogError> {
        if !self.terms.reserve(resource) {
            return Ok(Taken::Held(Some(Holder::this_process())));
        }
        let reserved = Reserved {
            terms: &self.terms,
            resource,
        };
        let taken = self.try_take(resource).await;
        if matches!(taken, Ok(Taken::Granted(_))) {
            // The entry is the lease's now, and goes when that is dropped.
            std::mem::forget(reserved);
        }
        taken.map_err(|error| self.postgres.error(error))
    }

    fn term(&self, resource: &Resource) -> Option<Term> {
        self.terms.of(resource)
    }

    fn check(&self, resource: &Resource) -> Result<(), CatalogError> {
        let held = self.terms.held.lock().get(resource).cloned();
        let Some(held) = held else { return Ok(()) };
        let silent = held.confirmed.elapsed();
        let why = if held.is_lost {
            "it expired before the database could renew it".to_owned()
        } else if silent >= self.trust() {
            format!("the database did not confirm it for {} s", silent.as_secs())
        } else {
            return Ok(());
        };
        Err(CatalogError::Unavailable(format!(
            "{}: the lease of {resource} may be lost: {why}; another machine may walk it",
            self.postgres.shown()
        )))
    }

    fn trusted_until(&self, resource: &Resource) -> Option<Deadline> {
        let held = self.terms.held.lock().get(resource).cloned()?;
        let trust = match held.is_lost {
            true => Duration::ZERO,
            false => self.trust(),
        };
        Some(Deadline::new(held.confirmed, trust))
    }

    async fn close(&self) {
        let (done, is_done) = oneshot::channel();
        if self.releases.send(Release::All(done)).is_ok() {
            let _ = timeout(LAST_RELEASES, is_done).await;
        }
    }
}

impl Drop for RowLeases {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

/// Frees a resource that was not taken in the end.
struct Reserved<'a> {
    terms: &'a Terms,
    resource: &'a Resource,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.terms.held.lock().remove(self.resource);
    }
}

/// Releases a lease when it is dropped.
struct Guard {
    term: Term,
    terms: Arc<Terms>,
    releases: mpsc::UnboundedSender<Release>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.term.fmt(f)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.terms.held.lock().remove(&self.term.resource);
        // Without the task, the lease expires.
        let _ = self.releases.send(Release::One(self.term.clone()));
    }
}

/// The task that renews and releases.
struct Renewal {
    /// By a connection of its own, so that neither a slow page nor a long query delays a renewal.
    postgres: Postgres,
    terms: Arc<Terms>,
    length: Duration,
}

impl Renewal {
    async fn run(self, holder: Uuid, mut requests: mpsc::UnboundedReceiver<Release>) {
        let mut next = Instant::now() + self.length / 4;
        let mut waiting = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = sleep_until(next) => {
                    // After a failure it is tried again soon, while the lease is trusted.
                    let pause = match self.renew(holder).await {
                        Ok(()) => self.length / 4,
                        Err(error) => {
                            tracing::warn!("cannot renew the leases: {error}");
                            self.length / 20
                        }
                    };
                    next = Instant::now() + pause;
                }
                count = requests.recv_many(&mut waiting, RELEASED_AT_ONCE) => match count {
                    0 => return,
                    _ => self.release(holder, std::mem::take(&mut waiting)).await,
                },
            }
        }
    }

    async fn renew(&self, holder: Uuid) -> Result<(), PostgresError> {
        let terms = self.terms.current();
        if terms.is_empty() {
            return Ok(());
        }
        let began = Monotonic::now();
        let rows = self
            .change(RENEW, holder, &terms, patience(self.length))
            .await?;
        let confirmed: Result<Vec<Resource>, _> = rows
            .iter()
            .map(|row| Ok::<_, PostgresError>(resource(row.try_get(0)?, row.try_get(1)?)))
            .collect();
        self.terms.confirm(&terms, &confirmed?, began);
        Ok(())
    }

    /// Releases the leases that nobody needs any more, all in one statement.
    async fn release(&self, holder: Uuid, requests: Vec<Release>) {
        let (mut terms, mut waiting) = (Vec::new(), Vec::new());
        for request in requests {
            match request {
                Release::One(term) => terms.push(term),
                Release::All(done) => waiting.push(done),
            }
        }
        if !terms.is_empty()
            && let Err(error) = self.change(RELEASE, holder, &terms, LAST_RELEASES).await
        {
            let resources: Vec<String> =
                terms.iter().map(|term| term.resource.to_string()).collect();
            tracing::warn!(
                "cannot release {}, whose leases expire by themselves: {error}",
                resources.join(", ")
            );
        }
        for done in waiting {
            let _ = done.send(());
        }
    }

    async fn change(
        &self,
        sql: &str,
        holder: Uuid,
        terms: &[Term],
        patience: Duration,
    ) -> Result<Vec<Row>, PostgresError> {
        let jobs: Vec<String> = terms.iter().map(|term| job_of(&term.resource)).collect();
        let regions: Vec<String> = terms.iter().map(|term| region_of(&term.resource)).collect();
        let numbers: Vec<i64> = terms.iter().map(|term| term.number).collect();
        let parameters: [Parameter<'_>; 4] = [
            (&jobs, Type::TEXT_ARRAY),
            (&regions, Type::TEXT_ARRAY),
            (&numbers, Type::INT8_ARRAY),
            (&holder, Type::UUID),
        ];
        let sql = qualified(sql, &self.postgres);
        self.postgres.autocommit(&sql, &parameters, patience).await
    }
}

/// The leases that any process holds.
///
/// # Errors
/// The statement failed.
pub async fn held(postgres: &Postgres) -> Result<Vec<HeldLease>, PostgresError> {
    match postgres.query(&qualified(ALL, postgres), &[]).await {
        Ok(rows) => rows.iter().map(held_lease).collect(),
        // No run has created the catalog yet.
        Err(error) if error.is_missing_table() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn held_lease(row: &Row) -> Result<HeldLease, PostgresError> {
    Ok(HeldLease {
        resource: resource(row.try_get(0)?, row.try_get(1)?),
        holder: holder(row, 2)?,
    })
}

/// The holder whose columns begin at `column`.
fn holder(row: &Row, column: usize) -> Result<Holder, PostgresError> {
    let time = |at: DateTime<Utc>| Some(Timestamp::from_micros(at.timestamp_micros()));
    Ok(Holder {
        machine: row.try_get(column)?,
        process: u32::try_from(row.try_get::<_, i64>(column + 1)?).unwrap_or_default(),
        since: time(row.try_get(column + 2)?),
        until: time(row.try_get(column + 3)?),
    })
}

fn qualified(sql: &str, postgres: &Postgres) -> String {
    sql.replace("{}", &format!("\"{}\"", postgres.schema()))
}

/// The `job` of a row. No name contains a brace, so that of anything but a region is the name of no job.
pub fn job_of(resource: &Resource) -> String {
    match resource {
        Resource::Region { job, .. } => stored(job).into_owned(),
        Resource::Ids { upstream, .. } => format!("{{ids {}}}", stored(upstream)),
        Resource::Retention { upstream } => format!("{{keep {}}}", stored(upstream)),
        Resource::Repair => "{repair}".to_owned(),
    }
}

/// The `region` of a row; of ids it is their kind.
pub fn region_of(resource: &Resource) -> String {
    match resource {
        Resource::Region { region, .. } => stored(region).into_owned(),
        Resource::Ids { kind, .. } => stored(kind).into_owned(),
        Resource::Retention { .. } | Resource::Repair => String::new(),
    }
}

fn resource(job: &str, region: &str) -> Resource {
    let inner = job.strip_prefix('{').and_then(|job| job.strip_suffix('}'));
    match inner.map(|inner| inner.split_once(' ')) {
        Some(Some(("ids", upstream))) => Resource::ids(&restored(upstream), &restored(region)),
        Some(Some(("keep", upstream))) => Resource::Retention {
            upstream: restored(upstream),
        },
        Some(None) if job == "{repair}" => Resource::Repair,
        _ => Resource::region(&restored(job), &restored(region)),
    }
}
