//! The JSON Schema of `quotas.toml`, for editors. Its keys and words are those that the readers know: a key that a
//! reader learns is in the schema at once, and a test sees that it is described.

mod parts;

use serde_json::{Value, json};

use self::parts::{
    array, bytes, count, described, duration, names, number, object, one_of, one_or_more, pattern,
    pointer, template, text, units, units_by_limit, with, word,
};
use super::Template;
use super::read::{
    SECTIONS, call, credential, job, ledger, notify, paging, region, rules, upstream,
};

/// The JSON Schema (draft 2020-12) of `quotas.toml`.
#[must_use]
pub fn schema() -> Value {
    let root = object(&SECTIONS, &["upstreams"], |key| match key {
        "regions" => described("The partitions that jobs fan out over", regions()),
        "ledger" => described("Where charges are recorded", of_ledger()),
        "catalog" => described("Where pages are landed", of_catalog()),
        "notify" => described("URLs that are pinged as runs begin and end", of_notify()),
        "upstreams" => described(
            "APIs that are pulled from, by name",
            with(names(of_upstream()), "minProperties", 1),
        ),
        "credentials" => described(
            "Secrets, and the accounts whose quota they draw on",
            names(of_credential()),
        ),
        "jobs" => described("What to fetch, as steps, for each region", names(of_job())),
        _ => json!(true),
    });
    let mut document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "quotas.toml",
        "description": "What ingest fetches, from where, and how much of it may be spent",
    });
    if let (Some(all), Value::Object(root)) = (document.as_object_mut(), root) {
        all.extend(root);
    }
    document
}

fn regions() -> Value {
    let code = json!({ "type": "string", "pattern": "^[^,\\s]([^,]*[^,\\s])?$", "not": { "enum": ["*", region::ALL] } });
    let list = json!({ "type": "array", "items": code, "minItems": 1, "uniqueItems": true });
    let value = json!({ "type": ["string", "number", "boolean"] });
    let allowed = json!({ "not": { "enum": Template::VARIABLES } });
    let region =
        json!({ "type": "object", "propertyNames": allowed, "additionalProperties": value });
    one_of([list, with(names(region), "minProperties", 1)])
}

fn of_ledger() -> Value {
    object(&ledger::KEYS, &[], |key| match key {
        "url" => described(
            "\"sqlite\", or a Redis",
            pattern(&format!("^(sqlite$|({}):)", schemes())),
        ),
        "password" => described(
            "Where the password of the Redis is; never the password itself",
            of_secret(),
        ),
        "sentinel_password" => described(
            "Where the password of the Sentinels is; never the password itself",
            of_secret(),
        ),
        "tls" => described("Certificates, as files in PEM", of_ledger_tls()),
        "timeout" => described("For one operation, connecting included", duration()),
        "cheap_max" => described(
            "The dearest call that goes ahead when the ledger is down",
            units(0),
        ),
        "unmetered_max" => described(
            "So many units of an account may go unmetered within a window",
            units(0),
        ),
        "max_skew" => described("How far the ledger's clock may be off", duration()),
        "after_loss" => described("After a ledger lost its data", word(&ledger::AFTER_LOSS)),
        _ => json!(true),
    })
}

fn of_ledger_tls() -> Value {
    let table = object(&ledger::TLS_KEYS, &[], |key| match key {
        "ca" => described(
            "Certificate authorities that may sign the server's certificate; unset: the system's",
            text(),
        ),
        "cert" => described("The client's certificate", text()),
        "key" => described("The private key of the client's certificate", text()),
        _ => json!(true),
    });
    with(
        table,
        "dependentRequired",
        json!({ "cert": ["key"], "key": ["cert"] }),
    )
}

fn schemes() -> String {
    ledger::SCHEMES
        .map(|scheme| scheme.replace('+', "\\+"))
        .join("|")
}

fn of_catalog() -> Value {
    object(&ledger::CATALOG_KEYS, &[], |key| match key {
        "url" => json!({ "const": "sqlite" }),
        _ => json!(true),
    })
}

fn of_notify() -> Value {
    object(&notify::KEYS, &[], |key| match key {
        "start" => described("Pinged as a run begins", pattern("^https?://")),
        "success" => described("Pinged when it ended well", pattern("^https?://")),
        "stopped" => described(
            "Pinged when a limit left work for the next one; unset: success",
            pattern("^https?://"),
        ),
        "failure" => described(
            "Pinged when something failed, was refused or was interrupted",
            pattern("^https?://"),
        ),
        _ => json!(true),
    })
}

fn of_upstream() -> Value {
    object(&upstream::KEYS, &["base_url", "calls"], |key| match key {
        "base_url" => described("Where it is", pattern("^https?://[^?#]*$")),
        "auth" => described("How a request carries the secret", of_auth()),
        "timeout" => described("For one request", duration()),
        "attempts" => described(
            "How often one request is tried; every attempt is charged",
            number(1, 100),
        ),
        "pause" => described(
            "Before the second attempt; longer before each further one",
            duration(),
        ),
        "max_body" => described("The longest answer that is read", bytes()),
        "keep" => described(
            "Records not seen again for this long are dropped",
            duration(),
        ),
        "headers" => {
            json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })
        }
        "errors" => described("How its refusals are told apart", of_rules()),
        "calls" => described(
            "Its metered methods, by their own names",
            with(names(of_call()), "minProperties", 1),
        ),
        _ => json!(true),
    })
}

fn of_auth() -> Value {
    let table = object(&upstream::AUTH_KEYS, &[], |key| match key {
        "header" => described("In this header", text()),
        "query" => described("In this parameter", text()),
        "bearer" => described("As a bearer token", json!({ "const": true })),
        _ => json!(true),
    });
    one_of([json!({ "const": "none" }), exactly_one(table)])
}

fn exactly_one(table: Value) -> Value {
    with(with(table, "minProperties", 1), "maxProperties", 1)
}

fn of_call() -> Value {
    object(&call::KEYS, &["cost"], |key| match key {
        "path" => described(
            "Below base_url; unset for a call that is only charged by hand",
            template(),
        ),
        "cost" => described("What one request takes of each limit", units_by_limit(1)),
        "outage" => described(
            "Whether it goes ahead when the ledger is down",
            word(&call::OUTAGES),
        ),
        "method" => word(&call::METHODS),
        "headers" => described("Headers of its own: templates", params()),
        "params" => described("Of every request; a step may say otherwise", params()),
        "body" => described(
            "The JSON of a POST: every text in it is a template",
            json!({ "type": "object" }),
        ),
        "page" => described("How it turns pages", of_paging()),
        "records" => described("What is in its answers", of_records()),
        "etag" => described(
            "An unchanged answer costs nothing, so it is asked whether it changed",
            word(&call::ETAGS),
        ),
        "settle" => described(
            "Where an answer tells what it truly cost, by limit",
            pointers_by_name(),
        ),
        "cheaper" => described("A call that brings the same for less", of_cheaper()),
        _ => json!(true),
    })
}

fn pointers_by_name() -> Value {
    json!({ "type": "object", "additionalProperties": pointer() })
}

fn of_cheaper() -> Value {
    object(&call::CHEAPER_KEYS, &["call"], |key| match key {
        "call" => described("Which one", text()),
        "with" => described("The parameter with which it does; unset: always", text()),
        "how" => described("What to know about it", text()),
        _ => json!(true),
    })
}

fn params() -> Value {
    json!({ "type": "object", "additionalProperties": template() })
}

fn of_records() -> Value {
    object(
        &call::RECORDS_KEYS,
        &["at", "kind", "id"],
        |key| match key {
            "at" => described("The list of records", pointer()),
            "kind" => described("What a record is: records of one kind share ids", text()),
            "id" => described("What tells one from another", one_or_more(pointer())),
            "text" => described("What a search finds", array(pointer())),
            "columns" => described("Columns of the kind's view", pointers_by_name()),
            _ => json!(true),
        },
    )
}

fn of_paging() -> Value {
    one_of(paging::KINDS.map(|(kind, keys)| {
        object(keys, required_of(kind), |key| match key {
            "kind" => json!({ "const": kind }),
            "param" => described("The parameter that names the page", text()),
            "next" => described("Where an answer says what comes next", pointer()),
            "in" => described("Where the parameters go", word(&paging::PLACES)),
            "size_param" => described("The parameter that says how long a page is to be", text()),
            "size" => described("Records on a full page", count()),
            "total" => described("Where an answer says how many there are", pointer()),
            "first" => described("The number of the first page", number(0, 1_000_000)),
            "empty_pages" => described(
                "How many empty pages in a row a list may contain while its cursor continues; 20 by default",
                number(0, 1_000_000),
            ),
            _ => json!(true),
        })
    }))
}

fn required_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "token" => &["kind", "param", "next"],
        "next_url" => &["kind", "next"],
        "offset" => &["kind", "param", "size"],
        "number" => &["kind", "param"],
        _ => &["kind"],
    }
}

fn of_rules() -> Value {
    let set = json!({ "enum": rules::SETS.map(|(name, _)| name) });
    one_of([set.clone(), array(one_of([set, of_rule()]))])
}

fn of_rule() -> Value {
    object(&rules::KEYS, &["class"], |key| match key {
        "status" => described("403, \"5xx\", or several", one_or_more(status())),
        "at" => described("A place in the answer", pointer()),
        "is" => described("What stands there", patterns()),
        "all" => array(object(&rules::BODY_KEYS, &["at", "is"], |key| match key {
            "at" => pointer(),
            "is" => patterns(),
            _ => json!(true),
        })),
        "text" => described("What the answer says somewhere", text()),
        "header" => described("A header that is there", text()),
        "header_is" => described("What it holds", patterns()),
        "class" => described("What the refusal means", word(&rules::CLASSES)),
        "limit" => described("The limit that is meant", text()),
        "limit_at" => described("Where the answer names the limit", pointer()),
        "until_header" => described(
            "The header that says, in seconds since 1970, when to come back",
            text(),
        ),
        "free" => described(
            "Whether the upstream does not count such a request: its charge is released",
            json!({ "type": "boolean" }),
        ),
        _ => json!(true),
    })
}

fn status() -> Value {
    one_of([number(100, 599), pattern("^[1-5]xx$")])
}

fn patterns() -> Value {
    one_or_more(json!({ "type": ["string", "number", "boolean"] }))
}

fn of_credential() -> Value {
    object(&credential::KEYS, &["upstream"], |key| match key {
        "upstream" => described("Whose secret it is", text()),
        "secret" => described("Where the secret is; never the secret itself", of_secret()),
        "account" => described("Whose quota it draws on; unset: its own name", text()),
        "limits" => described("The quota, by limit", names(of_limit())),
        _ => json!(true),
    })
}

fn of_secret() -> Value {
    exactly_one(object(&credential::SECRET_KEYS, &[], |key| match key {
        "env" => described(
            "An environment variable; $NAME_FILE names a file",
            pattern("^[A-Za-z_][A-Za-z0-9_]*$"),
        ),
        "file" => described("A file that only its owner may read", text()),
        "credential" => described("What systemd's LoadCredential= names", pattern("^[^/]+$")),
        "command" => described(
            "A program that prints it",
            with(array(json!({ "type": "string" })), "minItems", 1),
        ),
        _ => json!(true),
    }))
}

fn of_limit() -> Value {
    let table = object(&credential::LIMIT_KEYS, &["quota"], |key| match key {
        "quota" => described("What the upstream grants", units(1)),
        "headroom" => described("What is kept free for others", units(0)),
        "window" => described("No window of this length ever holds more", duration()),
        "resets" => described(
            "The time zone in whose midnight the upstream's day ends",
            text(),
        ),
        "wait" => described("How long a run sleeps for this limit", duration()),
        "upstream_name" => described("How the upstream calls it", text()),
        "told" => described("The headers by which answers tell how it stands", of_told()),
        _ => json!(true),
    });
    with(
        table,
        "anyOf",
        json!([{ "required": ["window"] }, { "required": ["resets"] }]),
    )
}

fn of_told() -> Value {
    object(&credential::TOLD_KEYS, &["remaining"], |key| match key {
        "remaining" => described("How many units are left", text()),
        "reset" => described("When they return, in seconds since 1970", text()),
        "resource" => described("Which limit is meant, by its upstream_name", text()),
        _ => json!(true),
    })
}

fn of_job() -> Value {
    object(&job::KEYS, &["credential", "steps"], |key| match key {
        "credential" => text(),
        "regions" => described(
            "Only these; unset: all",
            json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "uniqueItems": true }),
        ),
        "every" => described(
            "A region is due again this long after its last complete pass",
            duration(),
        ),
        "leave" => described("This job stops while that much is left", units_by_limit(0)),
        "resume_within" => described(
            "An unfinished pass is continued while it is younger than this",
            duration(),
        ),
        "steps" => with(array(of_step()), "minItems", 1),
        _ => json!(true),
    })
}

fn of_step() -> Value {
    object(&job::STEP_KEYS, &["call"], |key| match key {
        "call" => described("A call of the credential's upstream", text()),
        "params" => params(),
        "max_pages" => described("So many pages at most", count()),
        "ids" => described("The ids that an earlier step names", of_ids()),
        _ => json!(true),
    })
}

fn of_ids() -> Value {
    object(&job::IDS_KEYS, &["from", "at", "batch"], |key| match key {
        "from" => described("The call of an earlier step of this job", text()),
        "at" => described("Where its records name the ids", pointer()),
        "batch" => described("Ids in one request", count()),
        "fresh_for" => described("What was fetched this lately is not asked for", duration()),
        _ => json!(true),
    })
}
