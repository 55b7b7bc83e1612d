//! The functions by which a page is stored.
//!
//! PgBouncer in transaction mode allows no prepared statements, so the server parses and plans each statement of a page again. What
//! a function plans, each connection of the server keeps.

/// The settings of every function. The server keeps a plan while the table grows, so no plan may read the whole table, as the best
/// one for a small table does.
macro_rules! planned {
    () => {
        "language plpgsql set enable_seqscan to off set jit to off"
    };
}

/// The statements that create them.
pub const OF_PAGES: &str = concat!(
    "
create function landing_state(
    page_landing uuid, open_pass bigint,
    new_job text, new_region text, new_begin timestamptz, new_from timestamptz, new_to timestamptz,
    lease_job text, lease_region text, lease_holder uuid, lease_term bigint, last_landing uuid,
    page_upstream text, page_kind text, page_call text, page_step bigint, page_ids text[], known_request text,
    out pass_id bigint, out pass_units text, out transaction_id text, out is_held boolean,
    out stored_in bigint, out stored_last boolean, out stored_list text, out kind_text text, out kind_columns text, out last_position bigint,
    out known_ids text[], out known_hashes bigint[],
    out listed_ids text[], out listed_requested text[], out listed_first boolean[],
    out told_ids text[], out told_versions bigint[])
",
    planned!(),
    " as $$
begin
    if open_pass is null then
        insert into pass (job, region, started_at, slice_from, slice_to)
        values (new_job, new_region, new_begin, new_from, new_to)
        returning id, units, pg_current_xact_id()::text, (select true from lease
            where job = lease_job and region = lease_region and holder = lease_holder and term = lease_term
                and (last_landing is null or exists (select 1 from checkpoint where landing = last_landing))
            for key share)
        into pass_id, pass_units, transaction_id, is_held;
    else
        select id, units, pg_current_xact_id()::text, (select true from lease
            where job = lease_job and region = lease_region and holder = lease_holder and term = lease_term
                and (last_landing is null or exists (select 1 from checkpoint where landing = last_landing))
            for key share)
        into pass_id, pass_units, transaction_id, is_held
        from pass where id = open_pass for update;
        if pass_id is null then
            return;
        end if;
    end if;
    select pass, cursor is null, list into stored_in, stored_last, stored_list from checkpoint where landing = page_landing;
    select text, columns into kind_text, kind_columns from kind
        where upstream = page_upstream and kind.kind = page_kind and call = page_call;
    select array_agg(known.id), array_agg(known.text_hash) into known_ids, known_hashes
        from unnest(page_ids) page (id) cross join lateral (select record.id, record.text_hash from record
            where upstream = page_upstream and record.kind = page_kind and record.id = page.id offset 0) known;
    if open_pass is not null then
        select position into last_position from listing
            where pass = open_pass and step = page_step order by position desc limit 1;
        -- Planned each time: which index is the better one depends on how much the step listed.
        execute 'select array_agg(id), array_agg(coalesce(requested, '''')), array_agg(parent is null) from listing
            where id = any($5) and kind = $4 and upstream = $3 and pass = $1 and step = $2'
        into listed_ids, listed_requested, listed_first
        using open_pass, page_step, page_upstream, page_kind, page_ids;
    end if;
    if known_request is not null then
        -- From the newest pass with the record on, until one tells about the list.
        select array_agg(page.id), array_agg(told.version) into told_ids, told_versions
            from unnest(page_ids) page (id) cross join lateral (select listing.version from listing
                join lasting_cursor own
                    on own.pass = listing.pass and own.request = known_request and own.step = listing.step
                join pass former on former.id = listing.pass and former.outcome = 'complete' and not former.cut
                    and (former.job, former.region) = (select mine.job, mine.region from pass mine where mine.id = pass_id)
                where listing.id = page.id and listing.kind = page_kind and listing.upstream = page_upstream
                order by listing.pass desc limit 1) told
            where told.version is not null;
    end if;
end
$$;

create function store_records(
    page_upstream text, page_kind text, seen_at timestamptz,
    places bigint[], are_changed boolean[], ids text[], hashes bigint[], bodies text[])
returns void
",
    planned!(),
    " as $$
declare
    stored bigint;
    lowest bigint;
begin
    with drawn as materialized (
        select array_agg(nextval('record_number_seq')) numbers
        from generate_series(1, (select count(*) from unnest(places) place where place > 0))),
    written as (
        insert into record (number, upstream, kind, id, first_seen, last_seen, changed_at, gone_at, text_hash, body)
        select case when page.place > 0 then drawn.numbers[page.place] else page.place end,
            page_upstream, page_kind, page.id, seen_at, seen_at, seen_at,
            case when page.is_changed then 'infinity'::timestamptz end, page.text_hash, page.body
        from unnest(places, are_changed, ids, hashes, bodies) page (place, is_changed, id, text_hash, body), drawn
        on conflict (upstream, kind, id) do update set last_seen = excluded.last_seen, gone_at = null,
            text_hash = excluded.text_hash,
            body = case when record.body = excluded.body then record.body else excluded.body end,
            changed_at = case when octet_length(excluded.body) > 1048576 then excluded.last_seen
                when record.body = excluded.body and record.gone_at is null
                    then coalesce(record.changed_at, record.last_seen)
                else excluded.last_seen end
        where excluded.gone_at is not null or record.text_hash is not distinct from excluded.text_hash
        returning number)
    select count(*), min(number) into stored, lowest from written;
    if stored <> cardinality(ids) or lowest <= 0 then
        raise serialization_failure using message = 'another process changed or deleted a record of the page meanwhile';
    end if;
end
$$;

create function index_records(
    page_upstream text, page_kind text, ids text[], lengths bigint[], vectors tsvector[])
returns void
",
    planned!(),
    " as $$
begin
    insert into record_text (number, length, words)
    select known.number, page.length, page.words from unnest(ids, lengths, vectors) page (id, length, words)
    cross join lateral (select record.number from record
        where upstream = page_upstream and record.kind = page_kind and record.id = page.id offset 0) known
    order by known.number
    on conflict (number) do update set length = excluded.length, words = excluded.words;
end
$$;

create function advance_pass(
    page_pass bigint, page_step bigint, page_call text, page_upstream text, page_kind text,
    positions bigint[], ids text[], requested_ids text[],
    next_cursor text, landed_now timestamptz, page_request text, empty_pages_now bigint, is_cut boolean, page_landing uuid,
    listed_records bigint, units_now text, more_requests bigint, greatest_now text, list_now text, versions bigint[],
    out is_done boolean)
",
    planned!(),
    " as $$
begin
    with forgotten as (
        update checkpoint set cursor = null where listed_records > 0 and pass = page_pass and step = page_step
            and hashtextextended(cursor, 0) = hashtextextended(next_cursor, 0) and cursor = next_cursor),
    listed as (
        insert into listing (pass, step, position, call, upstream, kind, id, requested, version)
        select page_pass, page_step, page.place, page_call, page_upstream, page_kind, page.listed_id, page.requested_by,
            page.body_version
        from unnest(positions, ids, requested_ids, versions) page (place, listed_id, requested_by, body_version)),
    landed as (
        insert into checkpoint (pass, step, page, cursor, landed_at, request, empty_pages, cut, landing, list)
        select page_pass, page_step,
            coalesce((select page from checkpoint where pass = page_pass and step = page_step
                order by page desc limit 1), 0) + 1,
            case when listed_records = 0 and exists (select 1 from checkpoint
                where pass = page_pass and step = page_step
                    and hashtextextended(cursor, 0) = hashtextextended(next_cursor, 0) and cursor = next_cursor)
            then null else next_cursor end,
            landed_now, page_request, empty_pages_now, is_cut, page_landing, list_now
        returning cursor is null as ended)
    update pass set pages = pages + 1, records = records + listed_records, units = units_now,
        requests = least(requests, 9223372036854775807 - more_requests) + more_requests,
        greatest = coalesce(greatest_now, greatest)
    where id = page_pass returning (select ended from landed) into is_done;
end
$$;
"
);

/// What the catalog has of a page: the pass, which is locked or begun, and whether its lease is held. The lock of the lease's row
/// makes the next holder wait for the end of the transaction, and the lock of the pass any other landing. Both rows are read as
/// they are once they are locked. Then whether the landing is stored already, since the answer to its commit was lost; how the
/// call's records are read; what is known and listed of the page's records; and, for a page that can end its list, their versions in
/// the passes that tell about it.
pub const LANDING_STATE: &str = "select * from landing_state($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)";

/// Stores records in the order of their ids. New ones are numbered in the order of the page: `places` has their places among the
/// new ones, from 1, and a distinct number below 1 for each known one.
///
/// No lock was taken when the page's records were looked up. So the statement fails, and the page is stored again, if a record is
/// not as it was then: one that was known is inserted, under its negative number; or one whose text is the same, or that is new,
/// has another text. `gone_at` is set for the records whose text changes only to tell them apart there; they are indexed whatever
/// their text was meanwhile.
///
/// A record of more than 1 MiB counts as changed whenever it is returned, as in a file. An unchanged body is not written again.
pub const STORE_RECORDS: &str = "select store_records($1, $2, $3, $4, $5, $6, $7, $8)";

pub const INDEX_RECORDS: &str = "select index_records($1, $2, $3, $4, $5)";

/// What a page adds to its pass, which is locked: its listing, its cursor and its counts. A cursor that the step had before ends the
/// step, unless the page lists new records.
pub const ADVANCE_PASS: &str = "select advance_pass($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";
