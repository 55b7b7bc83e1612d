//! Worlds whose catalog is in PostgreSQL.

use super::postgres::{Schema, connections};
use super::world::World;

impl Schema {
    /// A world whose catalog is in this schema.
    pub(crate) fn world(&self, sets: &[&str]) -> World {
        let mut world = World::configured(sets, |_| {});
        self.in_world(&mut world);
        world
    }

    /// Makes a world's catalog this schema.
    pub(crate) fn in_world(&self, world: &mut World) {
        world
            .set(&format!("catalog.url=\"{}\"", self.reached_at()))
            .set(&format!("catalog.schema={}", self.name))
            .set(&format!("catalog.connections={}", connections()));
    }
}
