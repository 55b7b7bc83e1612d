use super::connection::checked;
use crate::support::pgbouncer::PgBouncer;
use crate::support::postgres::PostgresServer;
use crate::support::world::World;

#[test]
fn a_pooler_by_transaction_is_a_server_like_any_other() {
    let pooler = PgBouncer::before(PostgresServer::shared());
    let (good, said) = checked(&World::new(), &pooler.url(), &[]);
    assert!(good && said.contains("PostgreSQL "), "{said}");
}
