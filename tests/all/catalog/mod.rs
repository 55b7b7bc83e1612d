//! Every catalog passes the suite. The other modules test what only the catalog in a SQLite file has: files, tables, views.

mod both;
mod changes;
mod files;
mod fixture;
mod hostile;
mod index;
mod landing;
mod parents;
mod passes;
pub(crate) mod places;
mod properties;
mod prune;
mod readers;
mod restored;
mod shared_views;
mod suite;
mod views;

mod a_sqlite_file {
    super::suite::suite!(super::places::sqlite_file);
}

mod the_simulated_catalog {
    super::suite::pass_suite!(super::places::simulated);
}

mod a_postgres_schema {
    super::suite::suite!(super::places::postgres_schema);
}
