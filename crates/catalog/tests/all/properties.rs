//! A plain model agrees with the catalog after any landings, restarts and ends, also when the file is opened again in between.

use std::collections::{BTreeMap, BTreeSet};

use ingest_base::record::Record;
use ingest_catalog::{PassEnd, PassId};
use proptest::prelude::*;

use super::fixture::{Fixture, JOB, Page, at, held, new_pass, video_of};

const REGIONS: [&str; 3] = ["US", "GB", "DE"];

#[derive(Debug, Clone)]
enum Event {
    /// A page of the region's open pass, or of a new one: videos by number, and the cursor after it.
    Land {
        region: usize,
        step: usize,
        videos: Vec<u8>,
        next: Option<u8>,
    },
    /// A batch of channels is asked for; the even ones come.
    Fetch {
        channels: Vec<u8>,
    },
    Restart {
        region: usize,
        step: usize,
    },
    Finish {
        region: usize,
        end: PassEnd,
    },
    Drop {
        minutes: u64,
    },
    Reopen,
}

fn event() -> impl Strategy<Value = Event> {
    let videos = prop::collection::vec(0..12_u8, 0..6);
    let end = prop_oneof![
        Just(PassEnd::Complete),
        Just(PassEnd::Abandoned),
        Just(PassEnd::Refused)
    ];
    prop_oneof![
        6 => (0..3_usize, 0..2_usize, videos, prop::option::of(0..5_u8))
            .prop_map(|(region, step, videos, next)| Event::Land { region, step, videos, next }),
        2 => prop::collection::vec(0..5_u8, 1..4).prop_map(|channels| Event::Fetch { channels }),
        1 => (0..3_usize, 0..2_usize).prop_map(|(region, step)| Event::Restart { region, step }),
        1 => (0..3_usize, end).prop_map(|(region, end)| Event::Finish { region, end }),
        1 => (0..30_u64).prop_map(|minutes| Event::Drop { minutes }),
        2 => Just(Event::Reopen),
    ]
}

#[derive(Debug, Clone, Default)]
struct Step {
    pages: u64,
    cursors: BTreeSet<String>,
    at: Option<String>,
    listed: Vec<String>,
}

#[derive(Debug, Clone)]
struct Pass {
    id: PassId,
    region: &'static str,
    started: u64,
    steps: BTreeMap<usize, Step>,
    restarted: BTreeSet<usize>,
    end: Option<PassEnd>,
    requests: u64,
}

/// What the catalog holds, in the plainest words. Minutes count the events.
#[derive(Debug, Default)]
struct Model {
    passes: Vec<Pass>,
    videos: BTreeMap<String, (u64, u64)>,
    /// The channel that each video named, even of one that was dropped.
    named: BTreeMap<String, String>,
    channels: BTreeMap<String, u64>,
    absent: BTreeMap<String, u64>,
}

impl Model {
    fn open(&mut self, region: &'static str) -> Option<&mut Pass> {
        self.passes
            .iter_mut()
            .find(|pass| pass.region == region && pass.end.is_none())
    }

    /// Lands in the model, and says whether the cursor repeats.
    fn land(&mut self, region: &'static str, id: PassId, page: &Page, now: u64) -> bool {
        for record in &page.records {
            let channel = record.body["snippet"]["channelId"]
                .as_str()
                .unwrap()
                .to_owned();
            let first = self.videos.get(&record.id).map_or(now, |(first, _)| *first);
            self.videos.insert(record.id.clone(), (first, now));
            self.named.insert(record.id.clone(), channel);
        }
        if self.open(region).is_none() {
            let (steps, restarted) = Default::default();
            self.passes.push(Pass {
                id,
                region,
                started: now,
                steps,
                restarted,
                end: None,
                requests: 0,
            });
        }
        let pass = self.open(region).unwrap();
        assert_eq!(pass.id, id);
        pass.requests += 1;
        let step = pass.steps.entry(page.step).or_default();
        step.pages += 1;
        let listed_before = step.listed.len();
        for record in &page.records {
            if !step.listed.contains(&record.id) {
                step.listed.push(record.id.clone());
            }
        }
        let lists_new = step.listed.len() > listed_before;
        let repeats = page
            .next
            .as_ref()
            .is_some_and(|next| !lists_new && step.cursors.contains(next));
        step.at = page.next.clone().filter(|_| !repeats);
        step.cursors.extend(page.next.clone());
        repeats
    }

    fn pending(&self, fresh_since: u64) -> Vec<(String, PassId)> {
        let mut pending: Vec<(String, PassId)> = Vec::new();
        for pass in self
            .passes
            .iter()
            .filter(|pass| pass.end.is_none() && pass.region != "*")
        {
            for id in pass.steps.values().flat_map(|step| &step.listed) {
                let channel = &self.named[id];
                let fetched = self
                    .channels
                    .get(channel)
                    .max(self.absent.get(channel))
                    .copied();
                let fresh = fetched
                    .is_some_and(|fetched| fetched >= fresh_since || fetched >= pass.started);
                if !fresh && !pending.contains(&(channel.clone(), pass.id)) {
                    pending.push((channel.clone(), pass.id));
                }
            }
        }
        pending
    }
}

struct World {
    f: Fixture,
    model: Model,
}

impl World {
    async fn play(&mut self, event: &Event, now: u64) {
        match event {
            Event::Land {
                region,
                step,
                videos,
                next,
            } => {
                let page = listed(*step, videos, *next);
                self.land_page(REGIONS[*region], page, now).await;
            }
            Event::Fetch { channels } => self.fetch(channels, now).await,
            Event::Restart { region, step } => self.restart(REGIONS[*region], *step).await,
            Event::Finish { region, end } => self.finish(REGIONS[*region], *end, now).await,
            Event::Drop { minutes } => self.drop_unseen(now.saturating_sub(*minutes)).await,
            Event::Reopen => self.f.reopen(),
        }
    }

    async fn land_page(&mut self, region: &'static str, page: Page, now: u64) {
        let page = match self.model.open(region) {
            Some(pass) => page.in_pass(pass.id),
            None => page.over(region, at(now)),
        };
        let page = page.now(at(now));
        let landed = self.f.land(&page).await;
        assert_eq!(
            landed.cursor_repeats,
            self.model.land(region, landed.pass, &page, now)
        );
    }

    async fn fetch(&mut self, channels: &[u8], now: u64) {
        let names = |wanted: &dyn Fn(u8) -> bool| -> Vec<String> {
            channels
                .iter()
                .filter(|n| wanted(**n))
                .map(|n| format!("c{n}"))
                .collect()
        };
        let (asked, came) = (names(&|_| true), names(&|n| n % 2 == 0));
        let borrowed = |names: &[String]| {
            names
                .iter()
                .map(|name| name.clone().leak() as &str)
                .collect::<Vec<&str>>()
        };
        let page = Page::channels(&borrowed(&asked), &borrowed(&came));
        let pass = self
            .f
            .catalog
            .open_passes(JOB)
            .await
            .unwrap()
            .into_iter()
            .find(|pass| pass.region == "*");
        let page = match pass {
            Some(pass) => page.in_pass(pass.id),
            None => page.over("*", at(now)),
        };
        self.f.land(&page.now(at(now))).await;
        for id in asked {
            self.model.absent.remove(&id);
            let heap = if came.contains(&id) {
                &mut self.model.channels
            } else {
                &mut self.model.absent
            };
            heap.insert(id, now);
        }
    }

    async fn restart(&mut self, region: &'static str, step: usize) {
        let Some(pass) = self.model.open(region) else {
            return;
        };
        let first_time = pass.restarted.insert(step);
        if first_time {
            pass.steps.remove(&step);
        }
        assert_eq!(
            self.f
                .catalog
                .restart_step(&mut held(pass.id), step, at(0))
                .await
                .unwrap(),
            first_time
        );
    }

    async fn finish(&mut self, region: &'static str, end: PassEnd, now: u64) {
        let pass = match self.model.open(region) {
            Some(pass) => {
                pass.end = Some(end);
                held(pass.id)
            }
            None => new_pass(region, at(now)),
        };
        self.f
            .catalog
            .finish(&mut pass.clone(), end, at(now))
            .await
            .unwrap();
    }

    async fn drop_unseen(&mut self, since: u64) {
        let model = &mut self.model;
        let before = model.videos.len() + model.channels.len();
        model.videos.retain(|_, (_, last)| *last >= since);
        model.channels.retain(|_, last| *last >= since);
        model.absent.retain(|_, last| *last >= since);
        let dropped = before - model.videos.len() - model.channels.len();
        assert_eq!(
            self.f
                .catalog
                .drop_unseen("youtube", at(since))
                .await
                .unwrap(),
            dropped as u64
        );
    }

    async fn compare(&self, now: u64) {
        self.compare_records().await;
        self.compare_passes();
        self.compare_positions().await;
        for fresh_since in [0, now / 2, now, now + 1] {
            assert_eq!(
                self.f.pending("/snippet/channelId", at(fresh_since)).await,
                self.model.pending(fresh_since)
            );
        }
    }

    async fn compare_records(&self) {
        let stored = self
            .f
            .rows("select id, first_seen, last_seen from record where kind = 'video' order by id");
        let expected = self
            .model
            .videos
            .iter()
            .map(|(id, (first, last))| format!("{id} {} {}", at(*first), at(*last)));
        assert_eq!(stored, expected.collect::<Vec<_>>());
        let indexed = self
            .f
            .rows("select count(*) from record_text where record_text match 't'");
        assert_eq!(indexed, [self.model.videos.len().to_string()]);
    }

    fn compare_passes(&self) {
        for pass in &self.model.passes {
            let steps = pass.steps.values();
            let (pages, records): (u64, usize) = steps.fold((0, 0), |(pages, records), step| {
                (pages + step.pages, records + step.listed.len())
            });
            let counts = format!(
                "select pages, records, requests, units from pass where id = {}",
                pass.id.0
            );
            let units = format!(r#"{{"daily":{}}}"#, pass.requests);
            assert_eq!(
                self.f.rows(&counts),
                [format!("{pages} {records} {} {units}", pass.requests)]
            );
            for (number, step) in &pass.steps {
                let listing = format!(
                    "select id from listing where pass = {} and step = {number} order by position",
                    pass.id.0
                );
                assert_eq!(self.f.rows(&listing), step.listed);
            }
        }
    }

    async fn compare_positions(&self) {
        let regions = REGIONS.map(str::to_owned);
        for state in self
            .f
            .catalog
            .region_states(JOB, &regions, at(59))
            .await
            .unwrap()
        {
            let expected = self
                .model
                .passes
                .iter()
                .find(|pass| pass.region == state.region && pass.end.is_none());
            let found = state.unfinished.map(|open| {
                (
                    open.id,
                    open.steps
                        .into_iter()
                        .map(|step| (step.step, step.pages, step.cursor))
                        .collect::<Vec<_>>(),
                )
            });
            let expected = expected.map(|pass| {
                (
                    pass.id,
                    pass.steps
                        .iter()
                        .map(|(number, step)| (*number, step.pages, step.at.clone()))
                        .collect(),
                )
            });
            assert_eq!(found, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_catalog_agrees_with_a_plain_model(events in prop::collection::vec(event(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World { f: Fixture::new(), model: Model::default() };
            for (now, event) in (0..).zip(&events) {
                world.play(event, now).await;
                world.compare(now).await;
            }
        });
    }
}

/// A page of videos, behind which a cursor leads on.
fn listed(step: usize, videos: &[u8], next: Option<u8>) -> Page {
    let records: Vec<Record> = videos
        .iter()
        .map(|n| video_of(&format!("v{n}"), &format!("c{}", n % 5)))
        .collect();
    Page {
        next: next.map(|next| next.to_string()),
        ..Page::of(records).step(step)
    }
}
