//! What the shipped jobs spend beside the least that arithmetic allows: each page of a list once, and each id that is not fresh once,
//! in batches that all regions fill together.

use crate::support::world::World;

/// A job, the units of a page of its list, and where a listed record names the id of its second step, whose kind this is.
const JOBS: [(&str, u64, &str, &str); 2] = [
    ("trending", 1, "$.snippet.channelId", "channel"),
    ("discover", 100, "$.id.videoId", "video"),
];
/// Records of a page, and ids of a batch.
const PAGE: u64 = 50;

#[test]
fn the_shipped_jobs_spend_the_least_units_that_arithmetic_allows() {
    for (job, page_cost, at, kind) in JOBS {
        // A burst of searches needs no wait here.
        let mut world = World::configured(
            &["credentials.youtube.limits.search_burst.quota=100"],
            |_| {},
        );
        world.set(&format!("jobs.{job}.every=1ms"));
        let (mut known, mut former) = ("[]".to_owned(), 0);
        for run in 1..=3 {
            let before = world.counted("daily");
            let ran = world.ingest(&["--region", "all", "--job", job]);
            assert_eq!(ran.code, 0, "{ran:?}");
            let listed = format!(
                "pass join listing on listing.pass = pass.id and listing.step = 0
                join record on record.upstream = listing.upstream and record.kind = listing.kind and record.id = listing.id
                where pass.id > {former} and pass.region <> '*'"
            );
            let pages = number(
                &world,
                &format!(
                    "select sum((records + {PAGE} - 1) / {PAGE}) from (select count(*) as records from {listed} group by pass.id)"
                ),
            );
            let ids = number(
                &world,
                &format!(
                    "select count(distinct record.body ->> '{at}') from {listed}
                    and record.body ->> '{at}' not in (select value from json_each('{known}'))"
                ),
            );
            assert!(pages >= 8, "every region lists: {pages} pages");
            let least = pages * page_cost + ids.div_ceil(PAGE);
            let spent = world.counted("daily") - before;
            assert_eq!(spent, least, "{job}, run {run}: {pages} pages, {ids} ids");
            known = text(
                &world,
                &format!(
                    "select json_group_array(id) from
                    (select id from record where kind = '{kind}' union select id from absent where kind = '{kind}')"
                ),
            );
            former = world.count("select max(id) from pass");
        }
    }
}

fn text(world: &World, query: &str) -> String {
    let catalog = world.catalog();
    catalog.query_row(query, [], |row| row.get(0)).unwrap()
}

fn number(world: &World, query: &str) -> u64 {
    u64::try_from(world.count(query)).unwrap()
}
