//! The functions of a region's turn, from its lease to the end of its pass. As in [`functions`](super::functions), each connection
//! of the server keeps what a function plans.

/// The settings of a function whose statements look rows up by their keys: one plan serves all values.
macro_rules! looked_up {
    () => {
        "language plpgsql set enable_seqscan to off set jit to off set plan_cache_mode to force_generic_plan"
    };
}

/// The statements that create them.
pub const OF_TURNS: &str = concat!(
    "
create function take_lease(
    in_schema text, of_job text, of_region text, by_holder uuid, by_machine text, by_process bigint, seconds double precision,
    out machine text, out process bigint, out taken_at timestamptz, out expires_at timestamptz, out term bigint)
",
    looked_up!(),
    " as $$
begin
    -- Until the transaction ends, which is that of this statement: also for what is read behind it.
    perform set_config('search_path', quote_ident(in_schema), true);
    -- Another process can take it in between, and release it again.
    for attempt in 1 .. 2 loop
        -- A lease that another process holds is only read: its row would otherwise be locked, which is written to the disk.
        select lease.machine, lease.process, lease.taken_at, lease.expires_at into machine, process, taken_at, expires_at
            from lease where lease.job = of_job and lease.region = of_region and lease.holder <> by_holder
                and lease.expires_at > clock_timestamp();
        exit when found;
        insert into lease (job, region, holder, machine, process, term, length, taken_at, expires_at)
            values (of_job, of_region, by_holder, by_machine, by_process, 1, make_interval(secs => seconds),
                clock_timestamp(), clock_timestamp() + make_interval(secs => seconds))
            on conflict on constraint lease_pkey do update set holder = excluded.holder, machine = excluded.machine,
                process = excluded.process, term = lease.term + 1, length = excluded.length,
                taken_at = clock_timestamp(), expires_at = clock_timestamp() + excluded.length
            where lease.expires_at <= clock_timestamp() or lease.holder = excluded.holder
            returning lease.term into term;
        exit when found;
    end loop;
end
$$;

create function region_states(of_job text, regions text[], until timestamptz)
returns table (
    name text, complete_pass bigint, complete_since timestamptz, refused_since timestamptz, abandoned_at timestamptz,
    uncut_since timestamptz, uncut_greatest text, refused_request text, complete_notes text,
    doubtful_since timestamptz, doubtful_request text, doubtful_doubts text,
    open_pass bigint, open_region text, open_since timestamptz, open_greatest text, open_from timestamptz, open_to timestamptz,
    open_doubts text, open_relists boolean, positions text, batches text)
",
    looked_up!(),
    " as $$
begin
    return query select region.name, complete.id, complete.started_at, refused.started_at, abandoned.finished_at,
        uncut.started_at, uncut.greatest, refused.request, complete.notes,
        doubtful.started_at, doubtful.request, doubtful.doubts,
        unfinished.id, unfinished.region, unfinished.started_at, unfinished.greatest, unfinished.slice_from, unfinished.slice_to,
        unfinished.doubts, unfinished.relists, at.positions, begun.batches
    from unnest(regions) with ordinality region (name, place)
    left join lateral (select pass.id, pass.started_at, pass.notes from pass
        where job = of_job and pass.region = region.name and outcome = 'complete' and started_at <= until and slice_from is null
        order by pass.started_at desc, pass.id desc limit 1) complete on true
    left join lateral (select pass.started_at, pass.request from pass
        where job = of_job and pass.region = region.name and outcome = 'refused' and started_at <= until and slice_from is null
        order by pass.started_at desc, pass.id desc limit 1) refused on true
    left join lateral (select pass.started_at, pass.request, pass.doubts from pass
        where job = of_job and pass.region = region.name and outcome = 'doubtful' and started_at <= until and slice_from is null
        order by pass.started_at desc, pass.id desc limit 1) doubtful on true
    left join lateral (select pass.finished_at from pass
        where job = of_job and pass.region = region.name and outcome = 'abandoned' and started_at <= until and slice_from is null
        order by pass.started_at desc, pass.id desc limit 1) abandoned on true
    left join lateral (select pass.started_at, pass.greatest from pass
        where job = of_job and pass.region = region.name and outcome = 'complete' and not cut and started_at <= until
            and slice_from is null
        order by pass.started_at desc limit 1) uncut on true
    left join lateral (select pass.* from pass
        where job = of_job and pass.region = region.name and finished_at is null and slice_from is null
        order by pass.started_at desc, pass.id desc limit 1) unfinished on true
    left join lateral (
        select json_agg(json_build_array(last.pass, last.step, last.page, last.cursor, last.request, last.empty_pages,
            last.list))::text positions
        from (select distinct on (checkpoint.pass, checkpoint.step) checkpoint.* from checkpoint
            where checkpoint.pass in (complete.id, unfinished.id)
            order by checkpoint.pass, checkpoint.step, checkpoint.page desc) last) at on true
    left join lateral (
        select json_agg(json_build_array(one.step, one.ids::json, one.missing::json, one.cursors::json,
            round(extract(epoch from one.began) * 1000000)::bigint, one.empty_pages, one.greatest))::text batches
        from (select batch.* from batch where batch.pass = unfinished.id order by batch.step, batch.ids) one) begun on true
    order by region.place;
end
$$;

create function mark_missing(of_pass bigint, missing bigint[], previous bigint, at timestamptz, out gone bigint)
language plpgsql set plan_cache_mode to force_custom_plan as $$
declare
    -- The passes that tell what each list has now: its newest complete one, and those that are open. The pass, which is about to
    -- end, replaces the one before.
    current_passes bigint[] := array(
        select id from (
            select distinct on (job, region, slice_from, slice_to) id from pass where outcome = 'complete'
            order by job, region, slice_from, slice_to, started_at desc, id desc) newest
        where id <> previous
        union all select id from pass where finished_at is null and id <> previous
        union all select of_pass);
begin
    -- In the order of their keys, in which landings lock them too. `update` alone would take any order.
    perform 1 from record where number = any(missing) order by upstream, kind, id for update;
    -- Another machine may have seen a record meanwhile.
    update record set gone_at = at where number = any(missing)
        and gone_at is null and last_seen < (select started_at from pass where id = of_pass)
        and not exists (select 1 from listing
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and listing.pass = any(current_passes) and listing.requested is null)
        and not exists (select 1 from listing join lasting_cursor
                on lasting_cursor.pass = listing.pass and lasting_cursor.step = listing.step
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and listing.requested is null);
    get diagnostics gone = row_count;
end
$$;

create function mark_gone(of_pass bigint, steps bigint[], at timestamptz, out gone bigint)
",
    looked_up!(),
    " as $$
declare
    own_step bigint;
    former bigint;
    former_step bigint;
    own_request text;
    previous bigint;
    passes bigint[];
    steps_of bigint[];
    missing bigint[] := '{}';
    began timestamptz := (select started_at from pass where id = of_pass);
begin
    foreach own_step in array steps loop
        -- The last complete pass of the same region of the job, the step in it that requested the same, and that request unless this
        -- pass began at the cursor of that one.
        select before.id, checkpoint.step, case when pass.relists or not exists (
                select 1 from lasting_cursor own join lasting_cursor last on last.pass = before.id and last.request = own.request
                where own.pass = pass.id and own.step = own_step and own.cursor is not null and last.cursor is not null)
            then checkpoint.request end
            into former, former_step, own_request
            from pass join pass before on before.job = pass.job and before.region = pass.region
                -- The edges of a slice are null outside of slices.
                and before.slice_from is not distinct from pass.slice_from and before.slice_to is not distinct from pass.slice_to
                and before.outcome = 'complete' and before.id <> pass.id
            left join checkpoint on checkpoint.pass = before.id and checkpoint.request = (
                select own.request from checkpoint own
                where own.pass = of_pass and own.step = own_step and own.request is not null limit 1)
            where pass.id = of_pass
            order by before.started_at desc, before.id desc limit 1;
        continue when former_step is null;
        previous := former;
        passes := array[former];
        steps_of := array[former_step];
        if own_request is not null then
            -- Released is what earlier passes named: it no longer counts as in the list.
            for former, former_step in delete from lasting_cursor where request = own_request and pass < of_pass and pass in (
                    select same.id from pass join pass same on same.job = pass.job and same.region = pass.region
                    where pass.id = of_pass)
                returning pass, step loop
                passes := passes || former;
                steps_of := steps_of || former_step;
            end loop;
        end if;
        for place in 1 .. cardinality(passes) loop
            -- What the pass has listed was seen since it started. `offset 0` keeps the lookup of each record by its key apart: the
            -- index by age would lead to all that the pass has not seen.
            missing := missing || array(
                select record.number from listing cross join lateral (select number, gone_at, last_seen from record
                    where upstream = listing.upstream and kind = listing.kind and id = listing.id offset 0) record
                where listing.pass = passes[place] and listing.step = steps_of[place]
                    and record.gone_at is null and record.last_seen < began);
        end loop;
    end loop;
    gone := case when cardinality(missing) > 0 then mark_missing(of_pass, missing, previous, at) else 0 end;
end
$$;

create function complete_pass(
    of_pass bigint, lease_job text, lease_region text, lease_holder uuid, lease_term bigint, last_landing uuid,
    steps bigint[], at timestamptz, out is_known boolean, out is_held boolean, out gone bigint)
",
    looked_up!(),
    " as $$
begin
    select true, (select true from lease
            where job = lease_job and region = lease_region and holder = lease_holder and term = lease_term
                and (last_landing is null or exists (select 1 from checkpoint where landing = last_landing))
            for key share)
        into is_known, is_held from pass where id = of_pass for update;
    if is_known is null or (lease_job is not null and is_held is null) then
        return;
    end if;
    gone := mark_gone(of_pass, steps, at);
    delete from batch where pass = of_pass;
    update pass set outcome = 'complete', finished_at = at, left_at = at, failed = false, notes = null,
        cut = exists (select 1 from checkpoint where checkpoint.pass = of_pass and checkpoint.cut)
        where id = of_pass and finished_at is null;
end
$$;
"
);

/// Takes a lease, and reads the state of its region in the same round trip, if it was taken and a time (`$7`) says until when.
/// Returns another process's lease, or the term; neither where other processes took it meanwhile. The functions' statements each
/// read what was committed before them; not under an isolation that makes them read an earlier state, and then no state is
/// returned.
pub const TAKE: &str = "select taken.*, state.* from {}.take_lease($8, $1, $2, $3, $4, $5, $6) taken
    left join lateral {}.region_states($1, case
        when taken.term is not null and $7::timestamptz is not null and current_setting('transaction_isolation') = 'read committed'
        then array[$2] end, $7) state on true";

/// The passes of each region that the next run needs.
// One statement for all regions: each further one would be a round trip.
pub const STATES: &str = "select * from region_states($1, $2, $3)";

/// Marks what these lists of a pass lost. Returns the number of records.
pub const MARK_GONE: &str = "select mark_gone($1, $2, $3)";

/// Ends a pass as complete, once it marked what its lists lost; under the lock of the pass, and only if its lease is held. Returns
/// whether there is such a pass, and whether the lease is held.
pub const COMPLETE: &str = "select * from complete_pass($1, $2, $3, $4, $5, $6, $7, $8)";
