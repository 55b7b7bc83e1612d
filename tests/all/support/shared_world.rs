//! Worlds whose catalog is in PostgreSQL.

use ingest_testing::postgres::{Schema, connections};

use super::world::World;

/// What has a world whose catalog it is.
pub(crate) trait SharedWorld {
    /// A world whose catalog is in this schema.
    fn world(&self, sets: &[&str]) -> World {
        let mut world = World::configured(sets, |_| {});
        self.in_world(&mut world);
        world
    }

    /// Makes a world's catalog this schema.
    fn in_world(&self, world: &mut World);
}

impl SharedWorld for Schema {
    fn in_world(&self, world: &mut World) {
        world
            .set(&format!("catalog.url=\"{}\"", self.reached_at()))
            .set(&format!("catalog.schema={}", self.name))
            .set(&format!("catalog.connections={}", connections()));
    }
}
