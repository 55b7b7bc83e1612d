//! Connections to PostgreSQL. All statements are unnamed, and every setting is made within a transaction, so PgBouncer may
//! pool the connections by transaction.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::{FutureExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::error::PostgresError;
use super::route::{Connected, Route};
use crate::CatalogError;
use crate::sql::StoreError;
use ingest_config::{PostgresUrl, SecretSource};

/// How long a task waits for a connection that another one of this process uses.
// Without an end, tasks that wait for each other would keep a run from ending.
const WAITING: Duration = Duration::from_secs(30);
/// A connection that was idle for longer is tested before it is used.
const FRESH: Duration = Duration::from_secs(5);
/// How long a test or a cancel request may take.
const SHORT: Duration = Duration::from_secs(5);
/// The server's timeout of a statement that writes, and of one that reads.
const WRITING: Duration = Duration::from_secs(30);
const READING: Duration = Duration::from_secs(600);
/// What the planner may not do: it has no statistics of a new catalog, and a plan that reads a whole table is the best one for a
/// small table alone.
const PLANNED: &str = "set local enable_seqscan to off; set local jit to off";
/// How much longer than the server this client waits for a statement, so that the server gives up first.
const ON_THE_WAY: Duration = Duration::from_secs(5);
/// The most attempts of a transaction that the server ends to resolve a deadlock.
const ATTEMPTS: u32 = 10;

/// A parameter of a statement, with its type.
pub type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A parameter that is a text.
pub fn text<'a>(value: &'a (dyn ToSql + Sync)) -> Parameter<'a> {
    (value, Type::TEXT)
}

/// A PostgreSQL database. It connects when it is first used, and again after a loss. Clones share the connections.
#[derive(Clone)]
pub struct Postgres {
    pool: Arc<Pool>,
}

struct Pool {
    route: Arc<Route>,
    schema: String,
    shown: String,
    idle: Mutex<Vec<(Connected, Instant)>>,
    permits: Arc<Semaphore>,
}

impl Postgres {
    /// The database at a URL, the schema of the catalog in it, and how many connections to it this process makes at most.
    /// Connects to nothing yet.
    pub fn new(
        url: &PostgresUrl,
        password: Option<SecretSource>,
        schema: &str,
        connections: u32,
    ) -> Self {
        Self::from_pool(Pool {
            shown: url.to_string(),
            route: Arc::new(Route::new(url.clone(), password)),
            schema: schema.to_owned(),
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(connections as usize)),
        })
    }

    /// The same database, by one connection of its own.
    pub fn with_one_connection(&self) -> Self {
        Self::from_pool(Pool {
            shown: self.pool.shown.clone(),
            route: Arc::clone(&self.pool.route),
            schema: self.pool.schema.clone(),
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(1)),
        })
    }

    fn from_pool(pool: Pool) -> Self {
        Self {
            pool: Arc::new(pool),
        }
    }

    /// The schema of the catalog. Its name needs no quotes.
    pub fn schema(&self) -> &str {
        &self.pool.schema
    }

    /// The URL without its password, for messages.
    pub fn shown(&self) -> &str {
        &self.pool.shown
    }

    /// Reads `catalog.password`, if it is set. Connects to nothing.
    ///
    /// # Errors
    /// It cannot be read; the error says why.
    pub async fn read_password(&self) -> Result<(), String> {
        self.pool.route.read_password().await
    }

    /// An error of this database as callers of the catalog see it.
    pub fn error(&self, error: PostgresError) -> CatalogError {
        error.at(self.shown())
    }

    /// A connection for one task. A task must have only one at a time, or tasks could wait for each other's without end.
    ///
    /// # Errors
    /// No connection can be made.
    pub async fn session(&self) -> Result<Session, PostgresError> {
        let permit = self.permit().await?;
        self.connected(permit).await
    }

    /// Waits until this process may use one connection more.
    async fn permit(&self) -> Result<OwnedSemaphorePermit, PostgresError> {
        let permit = Arc::clone(&self.pool.permits).acquire_owned();
        match timeout(WAITING, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(PostgresError::Busy(WAITING)),
        }
    }

    /// A connection that was idle, or a new one.
    async fn connected(&self, permit: OwnedSemaphorePermit) -> Result<Session, PostgresError> {
        let idle = loop {
            match self.pool.take_idle() {
                Some((connected, since)) if since.elapsed() > FRESH => {
                    let tested = timeout(SHORT, connected.client.check_connection()).await;
                    if matches!(tested, Ok(Ok(()))) {
                        break Some(connected);
                    }
                    connected.driver.abort();
                }
                Some((connected, _)) => break Some(connected),
                None => break None,
            }
        };
        Ok(Session {
            connected: Some(match idle {
                Some(connected) => connected,
                None => self.pool.route.connect().await?,
            }),
            in_flight: AtomicUsize::new(0),
            is_lost: AtomicBool::new(false),
            postgres: self.clone(),
            _permit: permit,
        })
    }

    /// Reads by one statement, in a transaction of its own and one round trip. Names without a schema are the catalog's.
    ///
    /// # Errors
    /// The statement or the connection failed.
    pub async fn query(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, PostgresError> {
        let mut session = self.session().await?;
        let transaction = session.begin_reading().await?;
        // The beginning is sent with the statement, and its end is not waited for.
        let rows = transaction.query(sql, parameters).await?;
        transaction.end();
        Ok(rows)
    }

    /// Runs one statement outside of a transaction, with a timeout in the client, which begins when a connection is free. Names
    /// must have their schema. A server whose default isolation is stricter than READ COMMITTED may refuse the statement for a
    /// conflict; it then did not take place, and is repeated in a transaction.
    ///
    /// # Errors
    /// The statement or the connection failed, or no answer came within `patience`. It may then have taken place.
    pub async fn autocommit(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        patience: Duration,
    ) -> Result<Vec<Row>, PostgresError> {
        let permit = self.permit().await?;
        let work = async {
            let mut session = self.connected(permit).await?;
            match session.query(sql, parameters, patience).await {
                Err(error) if error.is_conflict() => {
                    let transaction = session.begin().await?;
                    let rows = transaction.query(sql, parameters);
                    transaction.commit_after(rows).await
                }
                done => done,
            }
        };
        let done = timeout(patience, work).await;
        done.unwrap_or(Err(PostgresError::Silent(patience)))
    }

    /// Repeats a transaction that the server ended to resolve a deadlock or a conflict.
    ///
    /// # Errors
    /// Any other failure, or a deadlock or conflict at each of many attempts.
    pub async fn repeated<T, F, W>(&self, work: W) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>> + Send,
        W: Fn() -> F + Send,
    {
        let mut attempt = 1;
        loop {
            match work().await {
                Err(StoreError::Postgres(error)) if error.is_conflict() && attempt < ATTEMPTS => {
                    // Two that met would meet again if they waited equally long.
                    sleep(Duration::from_millis(u64::from(
                        attempt * (std::process::id() % 17),
                    )))
                    .await;
                    attempt += 1;
                }
                done => return done,
            }
        }
    }
}

impl Pool {
    fn take_idle(&self) -> Option<(Connected, Instant)> {
        let mut idle = self.idle.lock();
        idle.retain(|(connected, _)| !connected.client.is_closed());
        idle.pop()
    }

    fn keep(&self, connected: Connected) {
        let mut idle = self.idle.lock();
        idle.push((connected, Instant::now()));
    }
}

/// A connection that one task uses. Dropping it gives the connection back, or ends one whose state is not known.
pub struct Session {
    /// `None` only while it is dropped.
    connected: Option<Connected>,
    /// Statements whose answers did not arrive.
    in_flight: AtomicUsize,
    /// Whether an error showed that the connection is of no further use.
    is_lost: AtomicBool,
    postgres: Postgres,
    _permit: OwnedSemaphorePermit,
}

impl Session {
    /// Begins a transaction that writes, under READ COMMITTED. Sent with its first statement, so it takes no round trip.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn begin(&mut self) -> Result<Transaction<'_>, PostgresError> {
        let begin = format!(
            // READ COMMITTED whatever the server defaults to: what follows a lock must read what was committed before the lock was
            // granted. All settings are of the transaction, since a pooler gives the connection to somebody else after it.
            "begin isolation level read committed read write;
            set local search_path to \"{}\";
            {PLANNED};
            set local statement_timeout to '{}s';
            set local lock_timeout to '10s';
            set local idle_in_transaction_session_timeout to '30s'",
            self.postgres.schema(),
            WRITING.as_secs(),
        );
        self.begin_by(&begin, WRITING + ON_THE_WAY).await
    }

    /// Begins a transaction that reads one state of the catalog, for as long as its caller needs.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn begin_reading(&mut self) -> Result<Transaction<'_>, PostgresError> {
        let begin = format!(
            // Several statements see one state.
            "begin isolation level repeatable read read only;
            set local search_path to \"{}\";
            {PLANNED};
            set local statement_timeout to '{}s'",
            self.postgres.schema(),
            READING.as_secs(),
        );
        self.begin_by(&begin, READING + ON_THE_WAY).await
    }

    async fn begin_by(
        &mut self,
        begin: &str,
        patience: Duration,
    ) -> Result<Transaction<'_>, PostgresError> {
        let begun = self.client()?.simple_query_raw(begin).await?;
        // Read apart: answers that nobody reads would hold up those behind them.
        let begun = tokio::spawn(begun.try_for_each(|_| async { Ok(()) }));
        Ok(Transaction {
            session: self,
            begun: Mutex::new(Some(begun)),
            is_open: AtomicBool::new(true),
            patience,
        })
    }

    /// Runs one statement outside of a transaction.
    ///
    /// # Errors
    /// The statement or the connection failed.
    pub async fn query(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        patience: Duration,
    ) -> Result<Vec<Row>, PostgresError> {
        let statement = self.client()?.query_typed(sql, parameters);
        self.run(patience, statement).await
    }

    /// Waits for a statement. One that is given up, by its timeout or since its caller is dropped, stays in flight.
    async fn run<T>(
        &self,
        patience: Duration,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, PostgresError> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let done = timeout(patience, statement).await;
        let done = done.map_err(|_| PostgresError::Silent(patience))?;
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let done = done.map_err(PostgresError::from);
        if done.as_ref().is_err_and(PostgresError::ends_connection) {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        done
    }

    fn client(&self) -> Result<&tokio_postgres::Client, PostgresError> {
        let connected = self.connected.as_ref();
        connected
            .map(|connected| &connected.client)
            // A session without a connection is being dropped.
            .ok_or(PostgresError::Ended)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(connected) = self.connected.take() else {
            return;
        };
        let is_lost = self.is_lost.load(Ordering::Relaxed);
        let is_whole = !is_lost && self.in_flight.load(Ordering::Relaxed) == 0;
        if is_whole && !connected.client.is_closed() {
            self.postgres.pool.keep(connected);
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(cancel(connected));
        }
    }
}

/// Cancels on the server what runs there, and ends the connection. Without the request a statement would run to its end, since
/// the server does not look at the connection meanwhile.
async fn cancel(connected: Connected) {
    if !connected.client.is_closed() {
        let _ = timeout(SHORT, connected.cancel()).await;
    }
    connected.driver.abort();
}

/// A transaction. Dropping it rolls it back. Statements that are awaited together (`try_join!`) are sent together, and the
/// server runs them in the order in which they are first polled.
pub struct Transaction<'s> {
    session: &'s mut Session,
    /// Reads the answer to its beginning.
    begun: Mutex<Option<JoinHandle<Result<(), tokio_postgres::Error>>>>,
    is_open: AtomicBool,
    patience: Duration,
}

impl Transaction<'_> {
    /// Runs a statement that returns rows.
    ///
    /// # Errors
    /// The statement or the connection failed, or no answer came in time.
    pub async fn query(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, PostgresError> {
        let statement = self.client()?.query_typed(sql, parameters);
        self.session.run(self.patience, statement).await
    }

    /// Runs a statement; returns the number of rows that it changed.
    ///
    /// # Errors
    /// The statement or the connection failed, or no answer came in time.
    pub async fn execute(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<u64, PostgresError> {
        let statement = self.client()?.execute_typed(sql, parameters);
        self.session.run(self.patience, statement).await
    }

    /// Runs several statements without parameters.
    ///
    /// # Errors
    /// A statement or the connection failed, or no answer came in time.
    pub async fn batch(&self, sql: &str) -> Result<(), PostgresError> {
        let statements = self.client()?.batch_execute(sql);
        self.session.run(self.patience, statements).await
    }

    /// Commits.
    ///
    /// # Errors
    /// Nothing was written; or, where the connection was lost, that is not known.
    pub async fn commit(self) -> Result<(), PostgresError> {
        self.commit_after(async { Ok(()) }).await
    }

    /// Sends the last statements of the transaction and its commit, all in one round trip, which is that of its beginning too if no
    /// statement precedes them. The server rolls back instead if one of
    /// them fails. None of their results can decide whether to commit, and none may wait for another: it would follow the commit, so
    /// it is not sent.
    ///
    /// # Errors
    /// Nothing was written; or, where the connection was lost, that is not known.
    pub async fn commit_after<T>(
        &self,
        statements: impl Future<Output = Result<T, PostgresError>>,
    ) -> Result<T, PostgresError> {
        let mut statements = pin!(statements);
        // The first poll sends the statements. If one cannot be sent, the others are rolled back.
        let sent = poll_fn(|context| Poll::Ready(statements.as_mut().poll(context))).await;
        if let Poll::Ready(Err(error)) = sent {
            return Err(error);
        }
        let done = async {
            match sent {
                Poll::Ready(done) => done,
                Poll::Pending => statements.await,
            }
        };
        let commit = async {
            let commit = self.client()?.batch_execute("commit");
            self.is_open.store(false, Ordering::Relaxed);
            self.session.run(self.patience, commit).await
        };
        // The commit is sent before the statements are polled again, whether their first answers are there or not.
        let (committed, done) = tokio::join!(biased; commit, done);
        committed?;
        self.check_begun().await?;
        done
    }

    fn client(&self) -> Result<&tokio_postgres::Client, PostgresError> {
        match self.is_open.load(Ordering::Relaxed) {
            true => self.session.client(),
            false => Err(PostgresError::Ended),
        }
    }

    async fn check_begun(&self) -> Result<(), PostgresError> {
        let begun = self.begun.lock().take();
        let Some(begun) = begun else { return Ok(()) };
        let begun = timeout(self.patience, begun).await;
        let begun = begun.map_err(|_| PostgresError::Silent(self.patience))?;
        Ok(begun.unwrap_or(Ok(()))?)
    }

    /// Ends a transaction that wrote nothing, without waiting for the server.
    pub fn end(self) {}

    fn roll_back(&self) {
        if let Ok(client) = self.session.client() {
            // The first poll sends it.
            let _ = client.simple_query_raw("rollback").now_or_never();
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.is_open.load(Ordering::Relaxed) {
            self.roll_back();
        }
    }
}
