//! The units of a forecast by day, limit and job.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::NaiveDate;
use chrono_tz::Tz;
use serde::Serialize;

use super::super::simulation::Granted;
use ingest_quota::{Account, LimitName, Units};

/// What a job charges to a limit in a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DaySpend {
    /// The day: of the zone in which the limit resets, else of UTC.
    pub day: NaiveDate,
    /// The account.
    pub account: String,
    /// The limit.
    pub limit: LimitName,
    /// The job.
    pub job: String,
    /// The units.
    pub units: Units,
}

/// Returns the granted units by the limit's own day, limit and job.
pub fn by_day(accounts: &[Arc<Account>], granted: &[Granted]) -> Vec<DaySpend> {
    let mut days: BTreeMap<(NaiveDate, String, LimitName, String), Units> = BTreeMap::new();
    for one in granted {
        let account = accounts.iter().find(|account| account.name == one.account);
        for (limit, units) in one.cost.iter() {
            let rule = account.and_then(|account| account.limits.get(limit));
            let zone = rule
                .and_then(|rule| rule.window().resets())
                .map_or(Tz::UTC, |calendar| calendar.zone());
            let day = one.at.to_utc().with_timezone(&zone).date_naive();
            let job = one.purpose.job.clone().unwrap_or_default();
            *days
                .entry((day, one.account.clone(), limit.clone(), job))
                .or_default() += units;
        }
    }
    let spend = |((day, account, limit, job), units)| DaySpend {
        day,
        account,
        limit,
        job,
        units,
    };
    days.into_iter().map(spend).collect()
}
