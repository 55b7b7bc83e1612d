//! Leases for the machines that share a catalog: a row for each resource, with the time at which it expires.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::connection::{Parameter, Postgres};
use super::error::PostgresError;
use super::stored::{restored, stored};
use crate::{CatalogError, HeldLease, Holder, Lease, Leases, Resource, Taken};
use ingest_base::clock::{Deadline, Monotonic};
use ingest_quota::Timestamp;

/// The table. The server's clock decides alone when a lease expires. `holder` is a random number of each lease, so that a late
/// release frees no lease that was taken since.
pub const TABLE: &str = "
create table lease (
    job text not null,
    region text not null,
    holder uuid not null unique,
    machine text not null,
    process bigint not null,
    length interval not null,
    taken_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (job, region)
);
";
/// Takes a lease. Returns whether it is taken, and the lease of another process; neither where another one took it meanwhile.
// A lease that another process holds is only read: its row would otherwise be locked, which is written to the disk.
const TAKE: &str = "with held as (
        select machine, process, taken_at, expires_at from {}.lease
        where job = $1 and region = $2 and holder <> $3 and expires_at > clock_timestamp()),
    taken as (
        insert into {}.lease as lease (job, region, holder, machine, process, length, taken_at, expires_at)
        select $1, $2, $3, $4, $5, make_interval(secs => $6), clock_timestamp(),
            clock_timestamp() + make_interval(secs => $6) where not exists (select from held)
        on conflict (job, region) do update set holder = excluded.holder, machine = excluded.machine,
            process = excluded.process, length = excluded.length, taken_at = clock_timestamp(),
            expires_at = clock_timestamp() + excluded.length
        where lease.expires_at <= clock_timestamp() or lease.holder = excluded.holder
        returning holder)
    select exists (select from taken), held.* from (values (1)) one left join held on true";

const ALL: &str = "select job, region, machine, process, taken_at, expires_at from {}.lease
    where expires_at > clock_timestamp() order by job, region";
const RENEW: &str = "update {}.lease set expires_at = clock_timestamp() + length where holder = any($1) returning holder";
const RELEASE: &str = "update {}.lease set expires_at = clock_timestamp()
    where holder = any($1) and expires_at > clock_timestamp()";

/// The longest time that the last releases of a process may take.
// A run ends within 10 s of a signal, whatever the database does.
const LAST_RELEASES: Duration = Duration::from_secs(5);

/// The most leases that one statement releases.
const RELEASED_AT_ONCE: usize = 1_000;

/// Leases as rows of the catalog.
pub struct RowLeases {
    postgres: Postgres,
    length: Duration,
    held: Held,
    releases: mpsc::UnboundedSender<Release>,
    renewal: AbortHandle,
}

/// The leases of this process: their holders, and until when each is trusted.
type Held = Arc<Mutex<HashMap<Resource, (Uuid, Deadline)>>>;

enum Release {
    /// The process needs this one no more.
    One(Uuid),
    /// The process ends: answer when nothing is left to release.
    All(oneshot::Sender<()>),
}

impl RowLeases {
    /// The leases of this process in a database, each for `length` after it was confirmed. Must be called within a runtime, for the
    /// task that renews them.
    pub fn new(database: &Postgres, length: Duration) -> Self {
        let (releases, requests) = mpsc::unbounded_channel();
        let held = Held::default();
        let renewal = Renewal {
            postgres: database.with_one_connection(),
            held: Arc::clone(&held),
            length,
        };
        Self {
            postgres: database.clone(),
            length,
            held,
            releases,
            renewal: tokio::spawn(renewal.run(requests)).abort_handle(),
        }
    }

    async fn try_take(&self, resource: &Resource) -> Result<Taken, PostgresError> {
        let (job, region) = (job_of(resource), region_of(resource));
        let Holder {
            machine, process, ..
        } = Holder::this_process();
        let (process, length) = (i64::from(process), self.length.as_secs_f64());
        let holder = Uuid::now_v7();
        let parameters: [Parameter<'_>; 6] = [
            (&job, Type::TEXT),
            (&region, Type::TEXT),
            (&holder, Type::UUID),
            (&machine, Type::TEXT),
            (&process, Type::INT8),
            (&length, Type::FLOAT8),
        ];
        let take = qualified(TAKE, &self.postgres);
        let (rows, began) = self.answered(&take, &parameters).await?;
        let Some(row) = rows.first() else {
            return Ok(Taken::Held(None));
        };
        if row.try_get(0)? {
            return Ok(Taken::Granted(self.lease(resource, holder, began)));
        }
        let is_held = row.try_get::<_, Option<&str>>(1)?.is_some();
        Ok(Taken::Held(
            is_held.then(|| self::holder(row, 1)).transpose()?,
        ))
    }

    /// Runs a statement, and again where no answer came in time, for as long as a lease that it took first would be trusted. The
    /// same holder takes a lease once more, so a take whose answer was lost is repeated. Returns when the answered attempt began.
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
                Err(PostgresError::Silent(_)) if first.elapsed() < trust(self.length) => {}
                Err(error) if attempt == 1 && error.ends_connection() => {}
                done => return Ok((done?, began)),
            }
            attempt += 1;
        }
    }

    fn lease(&self, resource: &Resource, holder: Uuid, began: Monotonic) -> Lease {
        let until = Deadline::new(began, trust(self.length));
        self.held.lock().insert(resource.clone(), (holder, until));
        Lease::new(Guard {
            resource: resource.clone(),
            holder,
            held: Arc::clone(&self.held),
            releases: self.releases.clone(),
        })
    }
}

/// How long a lease is trusted after it was confirmed.
fn trust(length: Duration) -> Duration {
    // The last quarter lies between the last request of this machine and the first of another one.
    length * 3 / 4
}

/// A quarter of a lease's length: what one renewal, or the answer to one, may take.
fn patience(length: Duration) -> Duration {
    (length / 4).max(Duration::from_secs(1))
}

#[async_trait]
impl Leases for RowLeases {
    async fn take(&self, resource: &Resource) -> Result<Taken, CatalogError> {
        let taken = self.try_take(resource).await;
        taken.map_err(|error| self.postgres.error(error))
    }

    fn trusted_until(&self, resource: &Resource) -> Option<Deadline> {
        self.held.lock().get(resource).map(|(_, until)| *until)
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

/// Releases a lease when it is dropped.
struct Guard {
    resource: Resource,
    holder: Uuid,
    held: Held,
    releases: mpsc::UnboundedSender<Release>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.resource.fmt(f)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.held.lock().remove(&self.resource);
        // Without the task, the lease expires.
        let _ = self.releases.send(Release::One(self.holder));
    }
}

/// The task that renews and releases.
struct Renewal {
    /// By a connection of its own, so that neither a slow page nor a long query delays a renewal.
    postgres: Postgres,
    held: Held,
    length: Duration,
}

impl Renewal {
    async fn run(self, mut requests: mpsc::UnboundedReceiver<Release>) {
        let mut next = Instant::now() + self.length / 4;
        let mut waiting = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = sleep_until(next) => {
                    // After a failure it is tried again soon, while the lease is trusted.
                    let pause = match self.renew().await {
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
                    _ => self.release(std::mem::take(&mut waiting)).await,
                },
            }
        }
    }

    async fn renew(&self) -> Result<(), PostgresError> {
        let asked: Vec<Uuid> = self
            .held
            .lock()
            .values()
            .map(|(holder, _)| *holder)
            .collect();
        if asked.is_empty() {
            return Ok(());
        }
        let began = Monotonic::now();
        let rows = self.change(RENEW, &asked, patience(self.length)).await?;
        let renewed = rows.iter().map(|row| row.try_get(0));
        let renewed: Vec<Uuid> = renewed.collect::<Result<_, _>>()?;
        for (resource, (holder, until)) in self.held.lock().iter_mut() {
            if renewed.contains(holder) {
                *until = Deadline::new(began, trust(self.length));
            } else if asked.contains(holder) && !until.is_past() {
                tracing::warn!("lost the lease of {resource}: the database does not have it");
                *until = Deadline::new(began, Duration::ZERO);
            }
        }
        Ok(())
    }

    /// Releases the leases that nobody needs any more, all in one statement.
    async fn release(&self, requests: Vec<Release>) {
        let (mut holders, mut waiting) = (Vec::new(), Vec::new());
        for request in requests {
            match request {
                Release::One(holder) => holders.push(holder),
                Release::All(done) => waiting.push(done),
            }
        }
        if !holders.is_empty()
            && let Err(error) = self.change(RELEASE, &holders, LAST_RELEASES).await
        {
            let count = holders.len();
            tracing::warn!("cannot release {count} leases, which expire by themselves: {error}");
        }
        for done in waiting {
            let _ = done.send(());
        }
    }

    async fn change(
        &self,
        sql: &str,
        holders: &[Uuid],
        patience: Duration,
    ) -> Result<Vec<Row>, PostgresError> {
        let sql = qualified(sql, &self.postgres);
        let holders: [Parameter<'_>; 1] = [(&holders, Type::UUID_ARRAY)];
        self.postgres.autocommit(&sql, &holders, patience).await
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
