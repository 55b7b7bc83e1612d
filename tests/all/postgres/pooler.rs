use super::connection::checked;
use crate::support::world::World;
use ingest_testing::pgbouncer::PgBouncer;
use ingest_testing::postgres::PostgresServer;

#[test]
fn a_pooler_by_transaction_is_a_server_like_any_other() {
    let pooler = PgBouncer::before(PostgresServer::shared());
    let (good, said) = checked(&World::new(), &pooler.url(), &[]);
    assert!(good && said.contains("PostgreSQL "), "{said}");
}
