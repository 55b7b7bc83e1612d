//! Places in stored records.

use crate::places::split;
use crate::sql::{StoredPart, Value};
use ingest_config::IdPlace;

/// A place in stored records.
pub fn part(at: &IdPlace) -> StoredPart {
    let (members, rest) = split(at);
    // In an array PostgreSQL takes `-1` for an index, which it is not in a pointer.
    let is_index = |member: &String| member.trim().parse::<i64>().is_ok();
    let (members, rest) = match members.iter().any(is_index) {
        true => (&[][..], Some(at.clone())),
        false => (members, rest),
    };
    StoredPart {
        // PostgreSQL cannot read a place of JSON that contains U+0000 anywhere: such a body is returned whole.
        columns: "case when strpos(body, '\\u0000') = 0 then (body::json #> ?1)::text end,
            case when strpos(body, '\\u0000') > 0 then body end",
        path: Value::Texts(members.to_vec()),
        rest,
    }
}
