//! Columns with a type. SQLite and DuckDB both evaluate these expressions, so they use only what both have: neither
//! `try_cast` nor SQLite's date functions. A value that is not of the type is null, so that one odd record does not make a
//! view fail.

use super::path;
use ingest_config::ColumnType;

/// The expression for a column, which is at these places of a record.
pub fn typed(kind: Option<ColumnType>, document: &str, tokens: &[String]) -> String {
    let text = || format!("select cast({} as text) v", path::text(document, tokens));
    match kind {
        None => path::expression(document, tokens),
        Some(ColumnType::Text) => format!("cast({} as text)", path::text(document, tokens)),
        Some(ColumnType::Json) => path::json(document, tokens),
        Some(ColumnType::Integer) => stepwise(&text(), &INTEGER),
        Some(ColumnType::Real) => stepwise(&text(), &REAL),
        Some(ColumnType::Boolean) => stepwise(&text(), &BOOLEAN),
        Some(ColumnType::Timestamp) => stepwise(&text(), &timestamp()),
    }
}

/// Each step selects from the one before it; the first one from `text`, which has the column `v`. The steps follow each other
/// as common tables instead of being nested: the parser of SQLite before 3.46 holds 100 symbols, and a view that it cannot
/// parse makes the whole file unreadable.
fn stepwise<S: AsRef<str>>(text: &str, steps: &[S]) -> String {
    let tables = steps
        .iter()
        .enumerate()
        .map(|(index, step)| format!("t{} as (select {} from t{index})", index + 1, step.as_ref()));
    let tables: Vec<String> = tables.collect();
    format!(
        "(with t0 as ({text}), {} select * from t{})",
        tables.join(", "),
        steps.len()
    )
}

const INTEGER: [&str; 2] = [
    "v, case when v like '-%' then substr(v, 2) else v end d",
    "case when trim(d, '0123456789') = '' and (length(d) between 1 and 18 or length(d) = 19 and d <= '9223372036854775807') \
    then cast(v as bigint) end",
];

/// The mantissa is `m`, the exponent `e`.
const REAL: [&str; 4] = [
    "v, instr(lower(v), 'e') p",
    "v, case when p > 1 then substr(v, 1, p - 1) else v end m, \
    case when p > 1 then substr(v, p + 1) else '0' end e",
    "v, case when m like '-%' then substr(m, 2) else m end m, \
    case when e like '-%' or e like '+%' then substr(e, 2) else e end e",
    "case when trim(m, '0123456789.') = '' and length(replace(m, '.', '')) between 1 and 300 \
    and length(m) - length(replace(m, '.', '')) <= 1 and length(e) between 1 and 3 \
    and trim(e, '0123456789') = '' then cast(v as double) end",
];

const BOOLEAN: [&str; 1] =
    ["case when lower(v) in ('true', '1') then 1 when lower(v) in ('false', '0') then 0 end"];

/// Text that begins with a date stays; a number is seconds since 1970, or milliseconds if it has more than 11 digits, and its
/// fraction is left out. The days since 1970 become a date as in Howard Hinnant's `civil_from_days`, with 1600 years more so that
/// none is negative.
fn timestamp() -> [String; 13] {
    let century_days = [("doe", "1460"), ("doe", "36524"), ("doe", "146096")];
    let [fours, centuries, all] = century_days.map(|(days, by)| quotient(days, by));
    [
        "v, case when instr(v, '.') > 1 and trim(substr(v, instr(v, '.') + 1), '0123456789') = '' \
        then substr(v, 1, instr(v, '.') - 1) else v end w"
            .to_owned(),
        "v, w, case when w like '-%' then substr(w, 2) else w end d".to_owned(),
        "v, d, case when length(d) between 1 and 14 and trim(d, '0123456789') = '' then cast(w as bigint) end i".to_owned(),
        format!("v, case when length(d) < 12 then i else {} end s", quotient("i", "1000")),
        "v, s, (s % 86400 + 86400) % 86400 r".to_owned(),
        "*, cast((s - r) / 86400 as bigint) + 1303856 z".to_owned(),
        format!("*, {} era", quotient("z", "146097")),
        "*, z - era * 146097 doe".to_owned(),
        format!("*, {} yoe", quotient(&format!("(doe - {fours} + {centuries} - {all})"), "365")),
        format!("*, doe - (365 * yoe + {} - {}) doy", quotient("yoe", "4"), quotient("yoe", "100")),
        format!("*, {} mp", quotient("(5 * doy + 2)", "153")),
        format!(
            "v, s, r, yoe + era * 400 - 1600 + case when mp < 10 then 0 else 1 end y, \
            case when mp < 10 then mp + 3 else mp - 9 end m, doy - {} + 1 d",
            quotient("(153 * mp + 2)", "5")
        ),
        format!(
            "case when v like '____-__-__%' then v when y between 1 and 9999 then \
            printf('%04d-%02d-%02dT%02d:%02d:%02dZ', y, m, d, {}, {}, r % 60) end",
            quotient("r", "3600"),
            quotient("(r % 3600)", "60")
        ),
    ]
}

/// The integer quotient, which SQLite writes `/` and DuckDB `//`.
fn quotient(dividend: &str, divisor: &str) -> String {
    format!("cast(({dividend} - {dividend} % {divisor}) / {divisor} as bigint)")
}
