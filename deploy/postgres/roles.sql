-- The roles and the schema of a catalog. Run once, by a superuser or the owner of the database:
--   createdb ingest
--   psql -d ingest -v password="$(cat /etc/ingest/catalog.key)" -f roles.sql
-- `ingest` owns the schema, whose tables it creates by itself; it may do nothing else. `ingest_reader` is for people and dashboards:
-- SELECT on everything in the schema, also on what later releases add. A role inherits no settings of a group, so those of readers
-- are the database's: `create role NAME login password '...' in role ingest_reader` is a reader.
\set ON_ERROR_STOP on
create role ingest login password :'password' connection limit 90;
create role ingest_reader nologin;

revoke create on schema public from public;
create schema ingest authorization ingest;
grant usage on schema ingest to ingest_reader;
grant select on all tables in schema ingest to ingest_reader;
alter default privileges for role ingest in schema ingest grant select on tables to ingest_reader;
alter database :"DBNAME" set search_path to ingest;
alter database :"DBNAME" set statement_timeout to '60s';
alter role ingest set statement_timeout to 0;
