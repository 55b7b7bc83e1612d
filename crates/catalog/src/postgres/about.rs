//! What `check --connect` reports of a database.

use tokio_postgres::types::Type;

use super::connection::Postgres;
use super::error::PostgresError;
use super::schema;
use ingest_quota::Timestamp;

const ABOUT: &str = "select current_setting('server_version'), current_user::text,
    coalesce((select version from pg_stat_ssl where ssl and pid = pg_backend_pid()), 'no TLS'),
    (select pg_get_userbyid(nspowner)::text from pg_namespace where nspname = $1),
    has_database_privilege(current_database(), 'create'), current_database()::text,
    (select has_schema_privilege(oid, 'usage') from pg_namespace where nspname = $1)";

/// A database as its role sees it.
pub struct About {
    /// The server's version.
    pub version: String,
    /// The connected role.
    pub role: String,
    /// The version of TLS to the server or its pooler, or that there is none.
    pub encryption: String,
    pub database: String,
    /// The owner of the catalog's schema; `None` if the schema does not exist.
    pub owner: Option<String>,
    /// The version of the catalog in the schema; `None` if there is none yet.
    pub catalog: Option<i32>,
    /// Whether the role may create a schema.
    pub may_create: bool,
    /// Whether the role may use the schema.
    pub may_use: bool,
}

/// The server's time.
///
/// # Errors
/// The connection or the statement failed.
pub async fn server_time(postgres: &Postgres) -> Result<Timestamp, PostgresError> {
    let rows = postgres.query("select clock_timestamp()", &[]).await?;
    let row = rows.first().ok_or_else(nothing)?;
    let at: chrono::DateTime<chrono::Utc> = row.try_get(0)?;
    Ok(at.into())
}

fn nothing() -> PostgresError {
    PostgresError::Unusable("the server returned nothing".to_owned())
}

/// Connects, and asks.
///
/// # Errors
/// The connection or the statement failed.
pub async fn about(postgres: &Postgres) -> Result<About, PostgresError> {
    let schema = postgres.schema();
    let catalog = schema::is_there(postgres).await?.then_some(schema::VERSION);
    let rows = postgres.query(ABOUT, &[(&schema, Type::TEXT)]).await?;
    let row = rows.first().ok_or_else(nothing)?;
    Ok(About {
        catalog,
        version: row.try_get(0)?,
        role: row.try_get(1)?,
        encryption: row.try_get(2)?,
        owner: row.try_get(3)?,
        may_create: row.try_get(4)?,
        database: row.try_get(5)?,
        may_use: row.try_get::<_, Option<bool>>(6)?.unwrap_or(true),
    })
}
