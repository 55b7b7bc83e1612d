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
        "regions" => described("The partitions that jobs walk", regions()),
        "ledger" => described("Where charges are recorded", of_ledger()),
        "catalog" => described("Where pages are stored", of_catalog()),
        "notify" => described("URLs to ping when a run starts and ends", of_notify()),
        "upstreams" => described(
            "The APIs, by name",
            with(names(of_upstream()), "minProperties", 1),
        ),
        "credentials" => described(
            "Secrets, and the accounts whose quota they use",
            names(of_credential()),
        ),
        "jobs" => described("What to fetch for each region, in steps", names(of_job())),
        _ => json!(true),
    });
    let mut document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "quotas.toml",
        "description": "What ingest fetches, from where, and within which quota",
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
            "\"sqlite\", or the URL of a Redis",
            pattern(&format!("^(sqlite$|({}):)", schemes())),
        ),
        "password" => described(
            "Where to read the Redis password from; never the password itself",
            of_secret(),
        ),
        "sentinel_password" => described(
            "Where to read the Sentinel password from; never the password itself",
            of_secret(),
        ),
        "tls" => described("Certificate files (PEM)", of_ledger_tls()),
        "timeout" => described(
            "Timeout of one ledger operation, including the connection",
            duration(),
        ),
        "cheap_max" => described(
            "The highest cost of a call that may go unmetered during an outage of the ledger",
            units(0),
        ),
        "unmetered_max" => described(
            "The most units of an account that may go unmetered within a window",
            units(0),
        ),
        "max_skew" => described(
            "The largest accepted difference between the ledger's clock and \
            this machine's",
            duration(),
        ),
        "after_loss" => described(
            "What to do after the ledger lost its data",
            word(&ledger::AFTER_LOSS),
        ),
        _ => json!(true),
    })
}

fn of_ledger_tls() -> Value {
    let table = object(&ledger::TLS_KEYS, &[], |key| match key {
        "ca" => described(
            "Certificate authorities trusted to sign the server's certificate; default: the \
            system's",
            text(),
        ),
        "cert" => described("The client certificate", text()),
        "key" => described("The private key of the client certificate", text()),
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
        "start" => described("Pinged when a run starts", pattern("^https?://")),
        "success" => described("Pinged when a run succeeded", pattern("^https?://")),
        "stopped" => described(
            "Pinged when a limit stopped a run; default: the `success` URL",
            pattern("^https?://"),
        ),
        "failure" => described(
            "Pinged when a run failed, was refused or was interrupted",
            pattern("^https?://"),
        ),
        _ => json!(true),
    })
}

fn of_upstream() -> Value {
    object(&upstream::KEYS, &["base_url", "calls"], |key| match key {
        "base_url" => described("The base URL of the API", pattern("^https?://[^?#]*$")),
        "auth" => described("How requests carry the secret", of_auth()),
        "timeout" => described("Timeout of one request", duration()),
        "attempts" => described(
            "The most attempts for one request; every attempt is charged",
            number(1, 100),
        ),
        "pause" => described(
            "The pause before the second attempt; it grows with each further attempt",
            duration(),
        ),
        "max_body" => described("The largest accepted response body", bytes()),
        "keep" => described(
            "Records that were not seen for this long are deleted",
            duration(),
        ),
        "headers" => {
            json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })
        }
        "errors" => described("Rules that classify refusals", of_rules()),
        "calls" => described(
            "The metered methods, by name",
            with(names(of_call()), "minProperties", 1),
        ),
        _ => json!(true),
    })
}

fn of_auth() -> Value {
    let table = object(&upstream::AUTH_KEYS, &[], |key| match key {
        "header" => described("Send the secret in this header", text()),
        "query" => described("Send the secret in this query parameter", text()),
        "bearer" => described(
            "Send the secret as a bearer token",
            json!({ "const": true }),
        ),
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
            "The path below base_url; omit it for a call that is only charged by hand",
            template(),
        ),
        "cost" => described("What one request costs, by limit", units_by_limit(1)),
        "outage" => described(
            "Whether the call may go unmetered during an outage of the ledger",
            word(&call::OUTAGES),
        ),
        "method" => word(&call::METHODS),
        "headers" => described("Headers of this call (templates)", params()),
        "params" => described(
            "Query parameters of every request (templates); a step can override \
            them",
            params(),
        ),
        "body" => described(
            "The JSON body of a POST; every string in it is a template",
            json!({ "type": "object" }),
        ),
        "page" => described("How pages follow each other", of_paging()),
        "records" => described("What a response contains", of_records()),
        "etag" => described(
            "Send If-None-Match, because a 304 response costs nothing",
            word(&call::ETAGS),
        ),
        "settle" => described(
            "Where a response reports its true cost, by limit",
            pointers_by_name(),
        ),
        "cheaper" => described("A cheaper call that returns the same records", of_cheaper()),
        _ => json!(true),
    })
}

fn pointers_by_name() -> Value {
    json!({ "type": "object", "additionalProperties": pointer() })
}

fn of_cheaper() -> Value {
    object(&call::CHEAPER_KEYS, &["call"], |key| match key {
        "call" => described("The cheaper call", text()),
        "with" => described(
            "The parameter that makes it equivalent; default: always equivalent",
            text(),
        ),
        "how" => described("A note on the replacement", text()),
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
            "at" => described("Where the list of records is", pointer()),
            "kind" => described("The kind of record; ids are unique within a kind", text()),
            "id" => described("Where a record has its id", one_or_more(pointer())),
            "text" => described("The text to index for search", array(pointer())),
            "columns" => described("Columns of the kind's SQL view", pointers_by_name()),
            _ => json!(true),
        },
    )
}

fn of_paging() -> Value {
    one_of(paging::KINDS.map(|(kind, keys)| {
        object(keys, required_of(kind), |key| match key {
            "kind" => json!({ "const": kind }),
            "param" => described("The parameter that selects the page", text()),
            "next" => described("Where a response names the next page", pointer()),
            "in" => described("Where paging parameters are sent", word(&paging::PLACES)),
            "size_param" => described("The parameter that sets the page size", text()),
            "size" => described("Records on a full page", count()),
            "total" => described("Where a response reports the number of records", pointer()),
            "first" => described("The number of the first page", number(0, 1_000_000)),
            "empty_pages" => described(
                "The most empty pages in a row while the cursor continues; default: 20",
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
        "at" => described("A place in the response", pointer()),
        "is" => described("The value at that place", patterns()),
        "all" => array(object(&rules::BODY_KEYS, &["at", "is"], |key| match key {
            "at" => pointer(),
            "is" => patterns(),
            _ => json!(true),
        })),
        "text" => described("Text that the response contains", text()),
        "header" => described("A header that the response has", text()),
        "header_is" => described("The value of that header", patterns()),
        "class" => described("What the refusal means", word(&rules::CLASSES)),
        "limit" => described("The limit that the refusal is about", text()),
        "limit_at" => described("Where the response names the limit", pointer()),
        "until_header" => described(
            "The header that holds the time to retry, in seconds since 1970",
            text(),
        ),
        "free" => described(
            "Whether the upstream does not count the request; its charge is then released",
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
        "upstream" => described("The upstream that the secret belongs to", text()),
        "secret" => described(
            "Where to read the secret from; never the secret itself",
            of_secret(),
        ),
        "account" => described(
            "The account whose quota it uses; default: the credential's name",
            text(),
        ),
        "limits" => described("The limits of the account, by name", names(of_limit())),
        _ => json!(true),
    })
}

fn of_secret() -> Value {
    exactly_one(object(&credential::SECRET_KEYS, &[], |key| match key {
        "env" => described(
            "An environment variable, or $NAME_FILE with the path of a file",
            pattern("^[A-Za-z_][A-Za-z0-9_]*$"),
        ),
        "file" => described("A file that only its owner can read", text()),
        "credential" => described(
            "The name of a systemd LoadCredential= entry",
            pattern("^[^/]+$"),
        ),
        "command" => described(
            "A program that prints the secret, and its arguments",
            with(array(json!({ "type": "string" })), "minItems", 1),
        ),
        _ => json!(true),
    }))
}

fn of_limit() -> Value {
    let table = object(&credential::LIMIT_KEYS, &["quota"], |key| match key {
        "quota" => described("The units that the upstream grants", units(1)),
        "headroom" => described("Units of the quota that are never used", units(0)),
        "window" => described("The length of the sliding window", duration()),
        "resets" => described("The time zone whose midnight resets the quota", text()),
        "wait" => described(
            "The longest time that a run sleeps for this limit; a longer wait \
            stops it",
            duration(),
        ),
        "upstream_name" => described("The upstream's name for this limit", text()),
        "reported" => described(
            "The response headers that report the remaining units",
            of_reported(),
        ),
        "told" => with(
            described("The former name of `reported`", of_reported()),
            "deprecated",
            true,
        ),
        _ => json!(true),
    });
    let windowed = with(
        table,
        "anyOf",
        json!([{ "required": ["window"] }, { "required": ["resets"] }]),
    );
    with(windowed, "not", json!({ "required": ["reported", "told"] }))
}

fn of_reported() -> Value {
    object(
        &credential::REPORTED_KEYS,
        &["remaining"],
        |key| match key {
            "remaining" => described("The header that holds the remaining units", text()),
            "reset" => described(
                "The header that holds the time of the reset, in seconds since 1970",
                text(),
            ),
            "resource" => described(
                "The header that names the limit, by its upstream_name",
                text(),
            ),
            _ => json!(true),
        },
    )
}

fn of_job() -> Value {
    object(&job::KEYS, &["credential", "steps"], |key| match key {
        "credential" => text(),
        "regions" => described(
            "The regions to walk; default: all",
            json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "uniqueItems": true }),
        ),
        "every" => described(
            "A region is due this long after its last complete pass",
            duration(),
        ),
        "leave" => described(
            "Units that this job leaves to others, by limit",
            units_by_limit(0),
        ),
        "resume_within" => described("How long an unfinished pass can be resumed", duration()),
        "steps" => with(array(of_step()), "minItems", 1),
        _ => json!(true),
    })
}

fn of_step() -> Value {
    object(&job::STEP_KEYS, &["call"], |key| match key {
        "call" => described("A call of the credential's upstream", text()),
        "params" => params(),
        "max_pages" => described("The most pages", count()),
        "ids" => described(
            "The ids to fetch, from the records of an earlier step",
            of_ids(),
        ),
        _ => json!(true),
    })
}

fn of_ids() -> Value {
    object(&job::IDS_KEYS, &["from", "at", "batch"], |key| match key {
        "from" => described("The call of an earlier step of this job", text()),
        "at" => described("Where its records hold the ids", pointer()),
        "batch" => described("Ids in one request", count()),
        "fresh_for" => described(
            "Ids that were fetched within this time are skipped",
            duration(),
        ),
        _ => json!(true),
    })
}
