//! The units of a forecast by day, limit and job.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use serde::Serialize;

use super::super::simulation::Granted;
use ingest_quota::{LimitName, Units};

/// What a job charges to a limit in a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DaySpend {
    /// The day, in UTC.
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

/// Returns the granted units by day in UTC, limit and job.
pub fn by_day(granted: &[Granted]) -> Vec<DaySpend> {
    let mut days: BTreeMap<(NaiveDate, String, LimitName, String), Units> = BTreeMap::new();
    for one in granted {
        let day = one.at.to_utc().date_naive();
        let job = one.purpose.job.clone().unwrap_or_default();
        for (limit, units) in one.cost.iter() {
            let key = (day, one.account.clone(), limit.clone(), job.clone());
            *days.entry(key).or_default() += units;
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
