use ingest_quota::Units;

use super::preset;

#[test]
fn since_june_2026_searches_and_figures_have_buckets_of_their_own() {
    let config = preset("youtube-granular");
    let calls = &config.upstreams["youtube"].calls;
    for (name, call) in calls {
        let cost: Vec<(&str, u64)> = call
            .cost
            .iter()
            .map(|(limit, units)| (limit.as_str(), units.get()))
            .collect();
        let wanted = match name.as_str() {
            "search.list" => [("search", 1)],
            "videos.batchGetStats" => [("stats", 1)],
            "captions.list" => [("daily", 50)],
            _ => [("daily", 1)],
        };
        assert_eq!(cost, wanted, "{name}");
    }
    let limits = &config.credentials["youtube"].account.limits;
    let quotas = |name: &str| limits[name].quota();
    assert_eq!(
        [quotas("daily"), quotas("search"), quotas("stats")],
        [10_000, 100, 10_000].map(Units::new)
    );
}

#[test]
fn both_ways_of_counting_know_the_same_calls() {
    let (pooled, granular) = (preset("youtube"), preset("youtube-granular"));
    let names = |config: &ingest_config::Config| {
        config.upstreams["youtube"]
            .calls
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let more: Vec<String> = names(&granular)
        .into_iter()
        .filter(|name| !names(&pooled).contains(name))
        .collect();
    assert_eq!(more, ["videos.batchGetStats"]);
    assert_eq!(names(&pooled).len() + 1, names(&granular).len());
    for (name, call) in &pooled.upstreams["youtube"].calls {
        let other = &granular.upstreams["youtube"].calls[name];
        assert_eq!(
            (&call.records, &call.paging),
            (&other.records, &other.paging),
            "{name}"
        );
    }
}
