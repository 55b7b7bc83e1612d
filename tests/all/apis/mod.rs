//! APIs of many shapes, by configuration alone.

mod authentication;
mod formats;
mod headers;
mod limits;
mod mistakes;
mod packed;
mod paging;
mod records;
mod regions;
mod shapes;
mod slices;

use serde_json::Value;

use crate::support::world::World;
use ingest_testing::stub_upstream::StubUpstream;

/// The parts of a configuration with one job that lists one call for each region.
pub(crate) struct Api<'a> {
    /// Keys of the upstream.
    pub(crate) upstream: &'a str,
    /// Keys of the call, `path` and `cost` excluded.
    pub(crate) call: &'a str,
    /// Keys of the credential, its limit excluded.
    pub(crate) credential: &'a str,
    /// More keys of the limit.
    pub(crate) limit: &'a str,
    pub(crate) regions: &'a str,
}

impl Default for Api<'_> {
    fn default() -> Self {
        Self {
            upstream: "",
            call: "",
            credential: "",
            limit: "",
            regions: r#"["US"]"#,
        }
    }
}

impl Api<'_> {
    /// The configuration as a file has it.
    pub(crate) fn text(&self) -> String {
        let Self {
            upstream,
            call,
            credential,
            limit,
            regions,
        } = self;
        format!(
            "regions = {regions}\n\
            [upstreams.api]\nbase_url = \"https://api.example.com\"\n{upstream}\n\
            [upstreams.api.calls.list]\npath = \"list\"\ncost = 1\n{call}\n\
            [credentials.main]\nupstream = \"api\"\n{credential}\n\
            [credentials.main.limits.daily]\nquota = 1000\nwindow = \"24h\"\n{limit}\n\
            [jobs.all]\ncredential = \"main\"\nsteps = [{{ call = \"list\" }}]\n"
        )
    }

    /// The configuration, whose upstream is `stub`.
    pub(crate) fn world(&self, stub: &StubUpstream) -> World {
        World::upon(stub, &self.text())
    }
}

/// The report of a run over all regions.
pub(crate) fn run(world: &World) -> Value {
    world.json(&["--region", "all"])
}

/// The ids and bodies of all records, by id.
pub(crate) fn records(world: &World) -> Vec<(String, Value)> {
    let catalog = world.catalog();
    let mut query = catalog
        .prepare("select id, body from record order by id")
        .unwrap();
    let rows = query.query_map([], |row| {
        let body: String = row.get(1)?;
        Ok((row.get(0)?, serde_json::from_str(&body).unwrap()))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

pub(crate) fn ids(world: &World) -> Vec<String> {
    records(world).into_iter().map(|(id, _)| id).collect()
}
