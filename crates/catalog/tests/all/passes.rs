use ingest_catalog::{PassReader, RegionState};

use super::fixture::{Fixture, JOB, Page, at, video};

async fn region_state(f: &Fixture, region: &str) -> RegionState {
    f.catalog
        .region_states(JOB, &[region.to_owned()], at(59))
        .await
        .unwrap()
        .remove(0)
}

/// Asks for the state of one region after the other, as a run does.
async fn time_to_ask(f: &Fixture, regions: usize) -> std::time::Duration {
    let began = std::time::Instant::now();
    for region in 0..regions {
        assert!(
            region_state(f, &format!("R{region}"))
                .await
                .unfinished
                .is_some()
        );
    }
    began.elapsed()
}

#[tokio::test]
async fn the_state_of_a_region_costs_the_same_however_many_regions_have_open_passes() {
    let (few, many) = (Fixture::new(), Fixture::new());
    for (f, regions) in [(&few, 20), (&many, 1_000)] {
        for region in 0..regions {
            let page = Page::of(vec![video("a", "fox")]).over(&format!("R{region}"), at(0));
            f.land(&page).await;
        }
    }
    let (alone, among_many) = (time_to_ask(&few, 20).await, time_to_ask(&many, 20).await);
    assert!(
        among_many < alone * 10,
        "{alone:?} for 20 regions of 20, {among_many:?} for 20 of 1,000"
    );
}
