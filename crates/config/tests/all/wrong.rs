//! Wrong files: each is refused with its line, its path, what was expected, and what to write.

use super::{SMALL, parse, problems, small_with};

/// What is replaced by what, and what is said of it: its line, its path, and what else the message holds.
type Case = (
    &'static str,
    &'static str,
    usize,
    &'static str,
    &'static [&'static str],
);

const LEDGER: &[Case] = &[
    (
        "[ledger]",
        "[ledgers]",
        3,
        "ledgers",
        &["unknown key", "did you mean ledger?"],
    ),
    (
        "url = \"sqlite\"",
        "url = \"sqlit\"",
        4,
        "ledger.url",
        &["\"sqlit\"", "write \"sqlite\""],
    ),
    (
        "url = \"sqlite\"",
        "url = 3",
        4,
        "ledger.url",
        &["expected a string"],
    ),
    (
        "url = \"sqlite\"",
        "url = \"postgres://a:b@c/d\"",
        4,
        "ledger.url",
        &["\"postgres://...\"", "redis+sentinel://"],
    ),
    (
        "url = \"sqlite\"",
        "url = \"redis://\"",
        4,
        "ledger.url",
        &["not a valid Redis URL"],
    ),
    (
        "url = \"sqlite\"",
        "url = \"redis://host?password=hush\"",
        4,
        "ledger.url",
        &["accepts only `protocol`", "redis://USER:PASSWORD@HOST"],
    ),
    (
        "url = \"sqlite\"",
        "timeout = \"soon\"",
        4,
        "ledger.timeout",
        &["\"soon\"", "expected a duration", "\"250ms\""],
    ),
    (
        "url = \"sqlite\"",
        "timeout = \"0s\"",
        4,
        "ledger.timeout",
        &["longer than zero"],
    ),
    (
        "url = \"sqlite\"",
        "timeout = 250",
        4,
        "ledger.timeout",
        &["250: expected a duration", "\"250ms\""],
    ),
    (
        "url = \"sqlite\"",
        "timeout = \"250\"",
        4,
        "ledger.timeout",
        &["expected a duration", "\"250ms\""],
    ),
    (
        "url = \"sqlite\"",
        "timeout = 10:00:00",
        4,
        "ledger.timeout",
        &["expected a duration", "\"250ms\""],
    ),
    (
        "url = \"sqlite\"",
        "cheap_max = -1",
        4,
        "ledger.cheap_max",
        &["-1", "whole number from 0", "write 0 or more"],
    ),
    (
        "url = \"sqlite\"",
        "cheap_max = 1.5",
        4,
        "ledger.cheap_max",
        &["1.5", "without a fraction"],
    ),
    (
        "url = \"sqlite\"",
        "after_loss = \"flor\"",
        4,
        "ledger.after_loss",
        &["did you mean floor?"],
    ),
    (
        "url = \"sqlite\"",
        "url = \"sqlite\"\nurl = \"sqlite\"",
        5,
        "",
        &["not valid TOML", "`url` stands on line 4 already"],
    ),
    (
        "url = \"sqlite\"",
        "url = \"sqlite\"\n[ledger]",
        5,
        "",
        &["not valid TOML", "`[ledger]` stands on line 3 already"],
    ),
    (
        "url = \"sqlite\"",
        "url = sqlite",
        4,
        "",
        &["not valid TOML"],
    ),
    (
        "[ledger]\nurl = \"sqlite\"",
        "ledger = 5",
        3,
        "ledger",
        &["expected a table"],
    ),
];

const REGIONS: &[Case] = &[
    (
        "[\"US\", \"GB\"]",
        "[]",
        1,
        "regions",
        &["at least one region"],
    ),
    (
        "[\"US\", \"GB\"]",
        "[\"US\", \"US\"]",
        1,
        "regions.1",
        &["duplicate region"],
    ),
    (
        "[\"US\", \"GB\"]",
        "[\"US\", \"\"]",
        1,
        "regions.1",
        &["not empty"],
    ),
    ("[\"US\", \"GB\"]", "[\"*\"]", 1, "regions.0", &["not `*`"]),
    (
        "[\"US\", \"GB\"]",
        "[\"a\\tb\"]",
        1,
        "regions.0",
        &["control characters"],
    ),
    (
        "[\"US\", \"GB\"]",
        "[\"all\"]",
        1,
        "regions.0",
        &["`all`", "--region"],
    ),
    (
        "[\"US\", \"GB\"]",
        "[\"GB\", \"US,GB\"]",
        1,
        "regions.1",
        &["comma", "--region"],
    ),
    (
        "[\"US\", \"GB\"]",
        "[\" US\"]",
        1,
        "regions.0",
        &["leading or trailing spaces"],
    ),
    (
        "[\"US\", \"GB\"]",
        "{ \"a,b\" = {} }",
        1,
        "regions.\"a,b\"",
        &["comma"],
    ),
    (
        "[\"US\", \"GB\"]",
        "\"US\"",
        1,
        "regions",
        &["expected a list"],
    ),
    (
        "[\"US\", \"GB\"]",
        "[1]",
        1,
        "regions.0",
        &["expected a string"],
    ),
    (
        "[\"US\", \"GB\"]",
        "{ US = { \"a:b\" = \"x\" } }",
        1,
        "regions.US.\"a:b\"",
        &["templates"],
    ),
    (
        "regions = [\"US\", \"GB\"]",
        "",
        35,
        "jobs.all.steps.0.params.region",
        &["has no regions", "at the top of the file"],
    ),
];

const UPSTREAM: &[Case] = &[
    (
        "base_url = \"https://api.example.com/v1\"",
        "",
        6,
        "upstreams.things.base_url",
        &["is missing", "https://"],
    ),
    (
        "\"https://api.example.com/v1\"",
        "\"api.example.com\"",
        7,
        "upstreams.things.base_url",
        &["expected a URL"],
    ),
    (
        "\"https://api.example.com/v1\"",
        "\"ftp://example.com\"",
        7,
        "upstreams.things.base_url",
        &["http or https"],
    ),
    (
        "https://api.example.com/v1",
        "http://api.example.com/v1",
        7,
        "upstreams.things.base_url",
        &["only over https", "write https://"],
    ),
    (
        "https://api.example.com/v1",
        "https://me:pw@api.example.com",
        7,
        "upstreams.things.base_url",
        &["without a user"],
    ),
    (
        "https://api.example.com/v1",
        "https://api.example.com?key=1",
        7,
        "upstreams.things.base_url",
        &["`params`"],
    ),
    (
        "{ header = \"x-api-key\" }",
        "{ header = \"x api key\" }",
        8,
        "upstreams.things.auth.header",
        &["header name"],
    ),
    (
        "{ header = \"x-api-key\" }",
        "{}",
        8,
        "upstreams.things.auth",
        &["exactly one of"],
    ),
    (
        "{ header = \"x-api-key\" }",
        "\"bearer\"",
        8,
        "upstreams.things.auth",
        &["{ bearer = true }"],
    ),
    (
        "{ header = \"x-api-key\" }",
        "{ bearer = false }",
        8,
        "upstreams.things.auth.bearer",
        &["expected true"],
    ),
    (
        "timeout = \"30s\"",
        "timeouts = \"30s\"",
        9,
        "upstreams.things.timeouts",
        &["did you mean timeout?"],
    ),
    (
        "timeout = \"30s\"",
        "timeout = \"30 parsecs\"",
        9,
        "upstreams.things.timeout",
        &["\"30 parsecs\"", "duration"],
    ),
    (
        "timeout = \"30s\"",
        "attempts = 0",
        9,
        "upstreams.things.attempts",
        &["from 1 to 100"],
    ),
    (
        "timeout = \"30s\"",
        "max_body = \"32 stones\"",
        9,
        "upstreams.things.max_body",
        &["\"32MiB\""],
    ),
    (
        "timeout = \"30s\"",
        "max_body = 0",
        9,
        "upstreams.things.max_body",
        &["from 1"],
    ),
    (
        "timeout = \"30s\"",
        "keep = \"101years\"",
        9,
        "upstreams.things.keep",
        &["at most 100 years"],
    ),
    (
        "timeout = \"30s\"",
        "headers = { authorization = \"Bearer hush\" }",
        9,
        "upstreams.things.headers.authorization",
        &["must not be in this file", "auth"],
    ),
    (
        "timeout = \"30s\"",
        "headers = { a = \"x\\ny\" }",
        9,
        "upstreams.things.headers.a",
        &["control characters"],
    ),
    (
        "timeout = \"30s\"",
        "errors = \"skip\"",
        9,
        "upstreams.things.errors",
        &["expected a list"],
    ),
    (
        "timeout = \"30s\"",
        "errors = [{ status = 403 }]",
        9,
        "upstreams.things.errors.0.class",
        &["is missing"],
    ),
    (
        "timeout = \"30s\"",
        "errors = [{ class = \"skip\" }]",
        9,
        "upstreams.things.errors.0",
        &["no condition"],
    ),
    (
        "timeout = \"30s\"",
        "errors = [{ status = 999, class = \"skip\" }]",
        9,
        "upstreams.things.errors.0.status",
        &["999", "\"5xx\""],
    ),
    (
        "timeout = \"30s\"",
        "errors = [{ status = \"9xx\", class = \"skip\" }]",
        9,
        "upstreams.things.errors.0.status",
        &["\"5xx\""],
    ),
    (
        "timeout = \"30s\"",
        "errors = [{ status = 403, class = \"spend\" }]",
        9,
        "upstreams.things.errors.0.class",
        &["did you mean spent?"],
    ),
    (
        "timeout = \"30s\"",
        "errors = [{ at = \"/a\", class = \"skip\" }]",
        9,
        "upstreams.things.errors.0.is",
        &["is missing"],
    ),
    (
        "timeout = \"30s\"",
        "errors = [{ header_is = \"0\", class = \"skip\" }]",
        9,
        "upstreams.things.errors.0.header",
        &["is missing"],
    ),
];

const CALL: &[Case] = &[
    (
        "path = \"owners\"",
        "path = \"owners/{cty}\"",
        18,
        "upstreams.things.calls.\"owners.list\".path",
        &[
            "{cty} is not a template variable",
            "one of region, ids, cursor, now, since, date",
        ],
    ),
    (
        "path = \"owners\"",
        "path = \"owners/{regoin}\"",
        18,
        "upstreams.things.calls.\"owners.list\".path",
        &["did you mean region?"],
    ),
    (
        "path = \"owners\"",
        "path = \"owners/{\"",
        18,
        "upstreams.things.calls.\"owners.list\".path",
        &["do not match"],
    ),
    (
        "path = \"owners\"",
        "path = \"owners/{date:-1q:%Y}\"",
        18,
        "upstreams.things.calls.\"owners.list\".path",
        &["is not a valid date", "{date:-1d:%Y-%m-%d}"],
    ),
    (
        "path = \"owners\"",
        "path = \"owners/{cursor}\"",
        18,
        "upstreams.things.calls.\"owners.list\".path",
        &["the call has no `page`"],
    ),
    (
        "path = \"owners\"",
        "path = \"owners\"\nmethod = \"Put\"",
        19,
        "upstreams.things.calls.\"owners.list\".method",
        &["method in capitals", "did you mean PUT?"],
    ),
    (
        "path = \"owners\"",
        "path = \"owners\"\njson = { a = 1 }\nform = { a = 1 }",
        17,
        "upstreams.things.calls.\"owners.list\"",
        &["at most one of json, form and graphql"],
    ),
    (
        "path = \"owners\"",
        "path = \"owners\"\njson = { a = [{ b = \"x {regoin}\" }] }",
        19,
        "upstreams.things.calls.\"owners.list\".json.a.0.b",
        &[
            "{regoin} is not a template variable",
            "did you mean region?",
        ],
    ),
    (
        "path = \"owners\"",
        "path = \"owners\"\nform = { a = 1 }\npage = { kind = \"token\", param = \"/a\", next = \"/n\" }",
        20,
        "upstreams.things.calls.\"owners.list\".page.param",
        &["the body is a form"],
    ),
    (
        "path = \"owners\"",
        "path = \"owners\"\njson = { a = 1 }\npage = { kind = \"token\", param = \"/a/b\", next = \"/n\" }",
        20,
        "upstreams.things.calls.\"owners.list\".page.param",
        &["a is not a table"],
    ),
    (
        "path = \"owners\"",
        "path = \"owners\"\ngraphql = { query = \"{ a }\" }\npage = { kind = \"token\", param = \"after\", next = \"/n\", in = \"body\" }",
        20,
        "upstreams.things.calls.\"owners.list\".page.param",
        &["write \"/variables/after\""],
    ),
    (
        "path = \"owners\"",
        "path = \"owners\"\njson = { a = 1 }\npage = { kind = \"token\", param = \"/b\", next = \"/n\", in = \"query\" }",
        20,
        "upstreams.things.calls.\"owners.list\".page.in",
        &["a JSON pointer is a place in the body"],
    ),
    (
        "path = \"owners\"",
        "path = \"owners\"\npage = { kind = \"token\", param = \"/b\", next = \"/n\" }",
        19,
        "upstreams.things.calls.\"owners.list\".page.param",
        &["a GET request has no body", "method = \"POST\""],
    ),
    (
        "path = \"owners\"",
        "path = \"owners\"\njson = { a = 1 }\netag = \"free\"",
        20,
        "upstreams.things.calls.\"owners.list\".etag",
        &["without a body"],
    ),
    (
        "params = { id = \"{ids}\" }",
        "params = { id = \"{ids}\" }\njson = { a = 1 }",
        41,
        "jobs.all.steps.1.json",
        &["no such body"],
    ),
    (
        "path = \"owners\"",
        "path = \"owners\"\noutage = \"alow\"",
        19,
        "upstreams.things.calls.\"owners.list\".outage",
        &["did you mean allow?"],
    ),
    (
        "path = \"owners\"",
        "path = \"owners\"\nmethod = \"POST\"\njson = { a = [nan] }",
        20,
        "upstreams.things.calls.\"owners.list\".json.a.0",
        &["JSON can represent"],
    ),
    (
        "cost = 1\n",
        "",
        17,
        "upstreams.things.calls.\"owners.list\".cost",
        &["is missing", "write cost = 1"],
    ),
    (
        "cost = 1\n",
        "cost = 0\n",
        19,
        "upstreams.things.calls.\"owners.list\".cost",
        &["from 1 to"],
    ),
    (
        "cost = 1\n",
        "cost = \"1\"\n",
        19,
        "upstreams.things.calls.\"owners.list\".cost",
        &["{ daily = 1 }"],
    ),
    (
        "cost = 1\n",
        "cost = { weekly = 1 }\n",
        19,
        "upstreams.things.calls.\"owners.list\".cost.weekly",
        &["no limit \"weekly\"", "write daily"],
    ),
    (
        "cost = 1\n",
        "cost = { dayly = 1 }\n",
        19,
        "upstreams.things.calls.\"owners.list\".cost.dayly",
        &["did you mean daily?"],
    ),
    (
        "size_param = \"size\", size = 50",
        "size_param = \"size\", size = 0",
        14,
        "upstreams.things.calls.\"things.list\".page.size",
        &["from 1"],
    ),
    (
        "size_param = \"size\", size = 50",
        "size_param = \"size\"",
        14,
        "upstreams.things.calls.\"things.list\".page.size",
        &["is missing"],
    ),
    (
        "kind = \"token\", param",
        "param",
        14,
        "upstreams.things.calls.\"things.list\".page.kind",
        &["is missing", "offset"],
    ),
    (
        "kind = \"token\"",
        "kind = \"tokens\"",
        14,
        "upstreams.things.calls.\"things.list\".page.kind",
        &["did you mean token?"],
    ),
    (
        "kind = \"token\", param = \"page\", next = \"/next\"",
        "kind = \"link\", param = \"page\"",
        14,
        "upstreams.things.calls.\"things.list\".page.param",
        &["unknown key"],
    ),
    (
        "kind = \"token\"",
        "kind = \"token\", in = \"body\"",
        14,
        "upstreams.things.calls.\"things.list\".page.in",
        &["GET request has no body"],
    ),
    (
        "next = \"/next\"",
        "next = \"next\"",
        14,
        "upstreams.things.calls.\"things.list\".page.next",
        &["JSON pointer", "write \"/next\""],
    ),
    (
        "kind = \"token\", param = \"page\", next = \"/next\"",
        "kind = \"number\", param = \"page\", total = \"/a\", pages = \"/b\"",
        14,
        "upstreams.things.calls.\"things.list\".page",
        &["expected one of total, pages", "remove the other"],
    ),
    (
        "next = \"/next\"",
        "next = \"$.page.next\"",
        14,
        "upstreams.things.calls.\"things.list\".page.next",
        &["write \"/page/next\""],
    ),
    (
        "next = \"/next\"",
        "next = \"@odata.nextLink\"",
        14,
        "upstreams.things.calls.\"things.list\".page.next",
        &[r#"write "/@odata.nextLink""#],
    ),
    (
        "next = \"/next\"",
        "next = \"value.@odata.nextLink\"",
        14,
        "upstreams.things.calls.\"things.list\".page.next",
        &[r#"write "/value/@odata.nextLink""#],
    ),
    (
        "next = \"/next\"",
        "next = \"$['@odata.nextLink']\"",
        14,
        "upstreams.things.calls.\"things.list\".page.next",
        &[r#"write "/@odata.nextLink""#],
    ),
    (
        "next = \"/next\"",
        "next = \"$.pages[0]['next.page'].url\"",
        14,
        "upstreams.things.calls.\"things.list\".page.next",
        &[r#"write "/pages/0/next.page/url""#],
    ),
    (
        "next = \"/next\"",
        "next = \"page.next\"",
        14,
        "upstreams.things.calls.\"things.list\".page.next",
        &[
            r#"write "/page/next""#,
            r#""/page.next" if that is the name of one member"#,
        ],
    ),
    (
        "next = \"/next\"",
        "next = \"/ne~2xt\"",
        14,
        "upstreams.things.calls.\"things.list\".page.next",
        &["`~` as ~0 and `/` as ~1", "write \"/ne~02xt\""],
    ),
    (
        "next = \"/next\"",
        "next = \"/next~\"",
        14,
        "upstreams.things.calls.\"things.list\".page.next",
        &["write \"/next~0\""],
    ),
    (
        "kind = \"owner\"",
        "kind = \"\"",
        20,
        "upstreams.things.calls.\"owners.list\".records.kind",
        &["not empty"],
    ),
    (
        "kind = \"owner\"",
        "kind = \"owner\", columns = { name = \"/a\", Name = \"/b\" }",
        20,
        "upstreams.things.calls.\"owners.list\".records.columns.Name",
        &["another column has this name", "another name"],
    ),
    (
        "kind = \"owner\"",
        "kind = \"owner\", columns = { name = \"a\" }",
        20,
        "upstreams.things.calls.\"owners.list\".records.columns.name",
        &["write \"/a\""],
    ),
    (
        "kind = \"owner\", id = \"/id\"",
        "kind = \"owner\", id = []",
        20,
        "upstreams.things.calls.\"owners.list\".records.id",
        &["at least one"],
    ),
    (
        "kind = \"owner\", id = \"/id\"",
        "kind = \"owner\"",
        20,
        "upstreams.things.calls.\"owners.list\".records.id",
        &["is missing"],
    ),
];

const PATH: &[Case] = &[
    (
        "path = \"owners\"",
        "path = \"owners?x=1\"",
        18,
        "upstreams.things.calls.\"owners.list\".path",
        &["`params`"],
    ),
    (
        "path = \"owners\"",
        "path = \"../owners\"",
        18,
        "upstreams.things.calls.\"owners.list\".path",
        &["below"],
    ),
    (
        "path = \"owners\"",
        "path = \"http://a/b\"",
        18,
        "upstreams.things.calls.\"owners.list\".path",
        &["below"],
    ),
    (
        "path = \"owners\"",
        "path = 5",
        18,
        "upstreams.things.calls.\"owners.list\".path",
        &["expected a string"],
    ),
];

const CREDENTIAL: &[Case] = &[
    (
        "upstream = \"things\"",
        "upstream = \"thing\"",
        23,
        "credentials.main.upstream",
        &["unknown upstream", "did you mean things?"],
    ),
    (
        "secret = { env = \"THINGS_KEY\" }\n",
        "",
        22,
        "credentials.main.secret",
        &["is missing", "{ env = "],
    ),
    (
        "{ env = \"THINGS_KEY\" }",
        "\"hush-hush\"",
        24,
        "credentials.main.secret",
        &["must not be in this file", "{ env = \"NAME\" }"],
    ),
    (
        "{ env = \"THINGS_KEY\" }",
        "{ env = \"A\", file = \"b\" }",
        24,
        "credentials.main.secret",
        &["exactly one"],
    ),
    (
        "{ env = \"THINGS_KEY\" }",
        "{ env = \"hush hush\" }",
        24,
        "credentials.main.secret.env",
        &["environment variable"],
    ),
    (
        "{ env = \"THINGS_KEY\" }",
        "{ command = [] }",
        24,
        "credentials.main.secret.command",
        &["a program"],
    ),
    (
        "{ env = \"THINGS_KEY\" }",
        "{ credential = \"../x\" }",
        24,
        "credentials.main.secret.credential",
        &["without a slash"],
    ),
    (
        "quota = 100",
        "quota = 0",
        26,
        "credentials.main.limits.daily.quota",
        &["from 1 to"],
    ),
    (
        "quota = 100",
        "quota = 100.0",
        26,
        "credentials.main.limits.daily.quota",
        &["quota = 100.0: ", "; write 100"],
    ),
    (
        "quota = 100",
        "quota = 1e4",
        26,
        "credentials.main.limits.daily.quota",
        &["quota = 1e4: ", "; write 10000"],
    ),
    (
        "quota = 100",
        "quota = 99_999_999_999_999_999_999",
        26,
        "credentials.main.limits.daily.quota",
        &["from 1 to"],
    ),
    (
        "quota = 100",
        "quota = 10",
        26,
        "credentials.main.limits.daily.headroom",
        &["leaves no units", "below the quota"],
    ),
    (
        "quota = 100, ",
        "",
        26,
        "credentials.main.limits.daily.quota",
        &["is missing"],
    ),
    (
        "window = \"24h\"",
        "window = \"0h\"",
        26,
        "credentials.main.limits.daily.window",
        &["longer than zero"],
    ),
    (
        "window = \"24h\"",
        "window = 86400",
        26,
        "credentials.main.limits.daily.window",
        &["expected a duration"],
    ),
    (
        "resets = \"UTC\"",
        "resets = \"PST\"",
        26,
        "credentials.main.limits.daily.resets",
        &["write the name of a zone, such as \"America/Los_Angeles\""],
    ),
    (
        "window = \"24h\"",
        "window = \"1 ns\"",
        26,
        "credentials.main.limits.daily.window",
        &["microseconds"],
    ),
    (
        "window = \"24h\", resets = \"UTC\"",
        "window = \"24h\", resets = \"UTC\", counting = \"buckets\"",
        26,
        "credentials.main.limits.daily.counting",
        &["a limit that resets counts exactly", "remove `counting`"],
    ),
    (
        "window = \"24h\", resets = \"UTC\"",
        "window = \"24h\", buckets = 12",
        26,
        "credentials.main.limits.daily.counting",
        &["is missing", "buckets"],
    ),
    (
        "window = \"24h\", resets = \"UTC\"",
        "wait = \"1s\"",
        26,
        "credentials.main.limits.daily.window",
        &["is missing", "resets = "],
    ),
    (
        "resets = \"UTC\"",
        "resets = \"America/Los_Angles\"",
        26,
        "credentials.main.limits.daily.resets",
        &["time zone", "did you mean \"America/Los_Angeles\"?"],
    ),
    (
        "resets = \"UTC\"",
        "resets = \"midnight somewhere\"",
        26,
        "credentials.main.limits.daily.resets",
        &["time zone", "or \"UTC\""],
    ),
    (
        "daily = { quota",
        "\"da}ily\" = { quota",
        26,
        "credentials.main.limits.\"da}ily\"",
        &["without braces"],
    ),
];

const JOB: &[Case] = &[
    (
        "credential = \"main\"",
        "credential = \"mian\"",
        29,
        "jobs.all.credential",
        &["unknown credential", "did you mean main?"],
    ),
    (
        "credential = \"main\"",
        "credential = \"main\"\nregions = [\"UK\"]",
        30,
        "jobs.all.regions.0",
        &["does not define this region"],
    ),
    (
        "credential = \"main\"",
        "credential = \"main\"\nregions = []",
        30,
        "jobs.all.regions",
        &["at least one"],
    ),
    (
        "credential = \"main\"",
        "credential = \"main\"\nregions = [\"US\", \"US\"]",
        30,
        "jobs.all.regions.1",
        &["duplicate region"],
    ),
    (
        "every = \"1h\"",
        "every = \"hourly\"",
        30,
        "jobs.all.every",
        &["\"hourly\"", "duration"],
    ),
    (
        "every = \"1h\"",
        "every = 10:00:00",
        30,
        "jobs.all.every",
        &["10:00:00: expected a duration"],
    ),
    (
        "every = \"1h\"",
        "every = \"0s\"",
        30,
        "jobs.all.every",
        &["longer than zero"],
    ),
    (
        "leave = { daily = 20 }",
        "leave = { daily = 90 }",
        31,
        "jobs.all.leave.daily",
        &["this job can spend nothing", "less than 90"],
    ),
    (
        "leave = { daily = 20 }",
        "leave = { weekly = 20 }",
        31,
        "jobs.all.leave.weekly",
        &["no limit"],
    ),
    (
        "call = \"things.list\"",
        "call = \"thing.list\"",
        34,
        "jobs.all.steps.0.call",
        &["\"thing.list\"", "did you mean \"things.list\"?"],
    ),
    (
        "path = \"owners\"\n",
        "",
        38,
        "jobs.all.steps.1.call",
        &["no `path`", "calls.\"owners.list\""],
    ),
    (
        "cost = { daily = 1 }",
        "cost = { daily = 71 }",
        34,
        "jobs.all.steps.0.call",
        &[
            "never be granted",
            "costs 71",
            "70 (quota 100 less headroom 10 and leave 20)",
        ],
    ),
    (
        "max_pages = 4",
        "max_pages = 0",
        36,
        "jobs.all.steps.0.max_pages",
        &["from 1"],
    ),
    (
        "max_pages = 4",
        "ids = { from = \"things.list\", at = \"/id\", batch = 1 }",
        36,
        "jobs.all.steps.0.ids",
        &["first step"],
    ),
    (
        "{ region = \"{region}\" }",
        "{ region = \"{region}\", id = \"{ids}\" }",
        35,
        "jobs.all.steps.0.params.id",
        &["no `ids`"],
    ),
    (
        "{ region = \"{region}\" }",
        "{ region = \"{city}\" }",
        35,
        "jobs.all.steps.0.params.region",
        &["{city} is not a template variable", "[regions.CODE] city"],
    ),
    (
        "{ region = \"{region}\" }",
        "{ page = \"2\" }",
        35,
        "jobs.all.steps.0.params.page",
        &["page.param", "already"],
    ),
    (
        "{ region = \"{region}\" }",
        "{ size = 0 }",
        35,
        "jobs.all.steps.0.params.size",
        &["whole number of 1 or more"],
    ),
    (
        "{ region = \"{region}\" }",
        "{ region = { a = 1 } }",
        35,
        "jobs.all.steps.0.params.region",
        &["expected a string"],
    ),
    (
        "params = { id = \"{ids}\" }",
        "",
        41,
        "jobs.all.steps.1.ids",
        &["no parameter of this step uses"],
    ),
    (
        "{ id = \"{ids}\" }",
        "{ id = \"{ids}\", r = \"{region}\" }",
        40,
        "jobs.all.steps.1.params.r",
        &["several regions"],
    ),
    (
        "from = \"things.list\"",
        "from = \"owners.list\"",
        41,
        "jobs.all.steps.1.ids.from",
        &["earlier step", "write \"things.list\""],
    ),
    (
        "batch = 50",
        "batch = 0",
        41,
        "jobs.all.steps.1.ids.batch",
        &["from 1"],
    ),
    (
        ", batch = 50",
        "",
        41,
        "jobs.all.steps.1.ids.batch",
        &["is missing"],
    ),
    (
        "at = \"/owner\"",
        "at = \"owner\"",
        41,
        "jobs.all.steps.1.ids.at",
        &["write \"/owner\""],
    ),
];

#[test]
fn every_wrong_file_is_refused_with_its_line_its_path_and_what_to_write() {
    let cases = [LEDGER, REGIONS, UPSTREAM, CALL, PATH, CREDENTIAL, JOB]
        .into_iter()
        .flatten();
    let complaints: Vec<String> = cases.filter_map(complaint).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// What is wrong with what is said of a wrong file.
fn complaint(&(before, after, line, path, phrases): &Case) -> Option<String> {
    let found = problems(&small_with(before, after), &[]);
    let said = found
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n");
    let place = format!("quotas.toml:{line}: {path}");
    let right = found.len() == 1
        && said.starts_with(&place)
        && phrases.iter().all(|phrase| said.contains(phrase))
        && !["hush", "pw@", "pw:"]
            .iter()
            .any(|secret| said.contains(secret));
    (!right).then(|| format!("{after:?} gave\n    {said}\n  in place of {place} {phrases:?}"))
}

#[test]
fn names_that_refer_to_nothing_are_reported_together_with_other_mistakes() {
    let mistakes = [
        (
            "timeout = \"30s\"",
            "timeout = \"soon\"",
            "upstreams.things.timeout",
        ),
        (
            "cost = { daily = 1 }",
            "cost = { dayly = 1 }",
            "did you mean daily?",
        ),
        (
            "call = \"owners.list\"",
            "call = \"owner.list\"",
            "did you mean \"owners.list\"?",
        ),
        ("url = \"sqlite\"", "url = 7", "ledger.url"),
        ("max_pages = 4", "max_page = 4", "did you mean max_pages?"),
    ];
    let text = mistakes
        .iter()
        .fold(SMALL.to_owned(), |text, (right, wrong, _)| {
            assert!(text.contains(right), "{right}");
            text.replacen(right, wrong, 1)
        });
    let found: Vec<String> = problems(&text, &[])
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(found.len(), mistakes.len(), "{}", found.join("\n"));
    for (_, wrong, phrase) in mistakes {
        let is_named = found.iter().any(|one| one.contains(phrase));
        assert!(is_named, "{wrong} gave {}", found.join("\n"));
    }
    // What is right is checked as usual beside a table that is not.
    let text = SMALL.replacen("url = \"sqlite\"", "url = 7", 1).replacen(
        "leave = { daily = 20 }",
        "leave = { dayly = 20 }",
        1,
    );
    assert_eq!(problems(&text, &[]).len(), 2);
}

#[test]
fn a_wrong_word_is_answered_with_the_right_ones_once() {
    let text = SMALL.replacen("cost = 1", "cost = 1\noutage = \"perhaps\"", 1);
    let found: Vec<String> = problems(&text, &[])
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        found[0].ends_with("expected one of allow, refuse; write one of these"),
        "{found:?}"
    );
}

#[test]
fn mistakes_of_several_credentials_are_named() {
    let listed = |keys: &str, more: &str| {
        let text = SMALL.replacen("credential = \"main\"", keys, 1) + more;
        let found = problems(&text, &[]);
        let found = found.iter().map(ToString::to_string);
        found.collect::<Vec<_>>().join("\n")
    };
    let both = "credentials = [\"main\", \"other\"]";
    let other = "[credentials.other]\nupstream = \"things\"\nsecret = { env = \"OTHER\" }\n";
    let daily = "limits = { daily = { quota = 90, window = \"24h\" } }\n";
    assert_eq!(listed(both, &format!("{other}{daily}")), "");
    let cases = [
        ("", String::new(), "credential: is missing"),
        (both, String::new(), "\"other\""),
        (
            "credential = \"main\"\ncredentials = [\"main\"]",
            String::new(),
            "remove one of the two",
        ),
        ("credentials = []", String::new(), "jobs.all.credentials"),
        (
            "credentials = [\"main\", \"main\"]",
            String::new(),
            "no quota of its own",
        ),
        (
            both,
            format!("{other}account = \"main\"\n"),
            "no quota of its own",
        ),
        (
            both,
            format!("{other}limits = {{ daily = {{ quota = 15, window = \"24h\" }} }}\n"),
            "`leave` reserves 20",
        ),
    ];
    for (keys, more, phrase) in cases {
        let said = listed(keys, &more);
        assert!(said.contains(phrase), "{keys} {more} gave {said:?}");
    }
}

#[test]
fn mistakes_of_slices_are_named() {
    let sliced = |keys: &str, param: &str| {
        let text = SMALL
            .replace("every = \"1h\"", keys)
            .replace("{region}", param);
        let found = problems(&text, &[]);
        let found = found.iter().map(ToString::to_string);
        found.collect::<Vec<_>>().join("\n")
    };
    let january = "slices = { from = \"2024-01-01\", step = \"30d\" }";
    assert_eq!(sliced(january, "{slice.from:-1d:%s}"), "");
    let cases = [
        ("", "{slice.from}", "job \"all\" has no `slices`"),
        (january, "{region}", "would list the same in every slice"),
        (january, "{slice.from} {since}", "has no {since}"),
        (
            january,
            "{slice.start}",
            "{slice.start} is not a template variable",
        ),
        (january, "{slice.to:yesterday}", "not a valid date or time"),
        (january, "{{slice.to}}", "single braces"),
        (
            "slices = { from = \"2024-01-01\", step = \"1s\" }",
            "{slice.from}",
            "at least a minute",
        ),
        (
            "slices = { from = \"2024-01-01\", step = \"fortnight\" }",
            "{slice.from}",
            "expected a duration",
        ),
        (
            "slices = { from = \"last year\", step = \"1d\" }",
            "{slice.from}",
            "expected a date",
        ),
        (
            "slices = { from = \"2024-01-01\", step = \"1d\", to = \"2023-01-01\" }",
            "{slice.from}",
            "expected an end after `from`",
        ),
        (
            "slices = { from = \"2024-01-01\", step = \"1d\", to = \"tomorrow\" }",
            "{slice.from}",
            "write for example \"2025-01-01\", \"now\" or \"now-2d\"",
        ),
        (
            "since = \"2024-01-01\"\nslices = { from = \"2024-01-01\", step = \"1d\" }",
            "{slice.from}",
            "a job with `slices` has no {since}",
        ),
    ];
    for (keys, param, phrase) in cases {
        let said = sliced(keys, param);
        assert!(said.contains(phrase), "{keys} {param} gave {said:?}");
    }
}

#[test]
fn a_list_stops_at_what_is_known_only_where_it_is_read_to_its_end_now_and_then() {
    let said = |step: &str, upstream: &str| {
        let text = SMALL
            .replace("max_pages = 4", step)
            .replace("timeout = \"30s\"", upstream);
        let found = problems(&text, &[]);
        let found = found.iter().map(ToString::to_string);
        found.collect::<Vec<_>>().join("\n")
    };
    let weekly = "stop_at_known = { complete_every = \"7d\" }";
    assert_eq!(said(weekly, ""), "");
    assert_eq!(
        said("stop_at_known = { complete_every = \"never\" }", ""),
        ""
    );
    assert_eq!(said(weekly, "keep = \"169h\""), "", "7d and `every`");
    let cases = [
        ("stop_at_known = {}", "", "complete_every"),
        (
            "stop_at_known = { complete_every = \"soon\" }",
            "",
            "write for example \"7d\", or \"never\"",
        ),
        (
            "stop_at_known = { complete_every = \"0s\" }",
            "",
            "longer than zero",
        ),
        ("stop_at_known = { every = \"7d\" }", "", "unknown key"),
        (
            "max_pages = 4\nstop_at_known = { complete_every = \"7d\" }",
            "",
            "remove one of the two",
        ),
        (weekly, "keep = \"7d\"", "write at most \"6days 23h\""),
        (
            "stop_at_known = { complete_every = \"never\" }",
            "keep = \"30d\"",
            "`keep` of the upstream deletes records",
        ),
        (
            weekly,
            "headers = { since = \"{since}\" }",
            "the step names {since}",
        ),
        (
            weekly,
            "headers = { on = \"{date}\" }",
            "the step names {date}",
        ),
    ];
    for (step, upstream, phrase) in cases {
        let said = said(step, upstream);
        assert!(said.contains(phrase), "{step} {upstream} gave {said:?}");
        assert!(said.contains("jobs.all.steps.0.stop_at_known"), "{said}");
    }
    let of_ids = SMALL.replace(
        "fresh_for = \"7d\" }",
        "fresh_for = \"7d\" }\nstop_at_known = { complete_every = \"7d\" }",
    );
    let of_ids = &problems(&of_ids, &[])[0].to_string();
    assert!(of_ids.contains("reads each list to its end"), "{of_ids}");
    let one_page =
        "[[jobs.all.steps]]\ncall = \"owners.list\"\nstop_at_known = { complete_every = \"7d\" }\n";
    let one_page = &problems(&format!("{SMALL}{one_page}"), &[])[0].to_string();
    assert!(one_page.contains("has one page"), "{one_page}");
}

#[test]
fn a_file_that_says_nothing_is_wrong() {
    for text in ["", "# nothing", "[upstreams]", "upstreams = {}"] {
        let found = super::problems(text, &[]);
        assert!(
            found.len() == 1 && found[0].path == "upstreams",
            "{found:?}"
        );
    }
}

#[test]
fn a_number_in_quotes_is_to_be_written_without_them() {
    let said = problems(&small_with("quota = 100", "quota = \"100\""), &[])[0].to_string();
    assert!(said.ends_with("write 100 without quotes"), "{said}");
}

#[test]
fn steps_in_single_brackets_are_to_be_written_in_double_ones() {
    let once = small_with(
        "[[jobs.all.steps]]\ncall = \"things.list\"",
        "[jobs.all.steps]\ncall = \"things.list\"",
    );
    let (once, _) = once.split_once("[[jobs.all.steps]]").unwrap();
    let said = problems(once, &[])[0].to_string();
    assert!(
        said.ends_with("expected a list of tables; write [[jobs.all.steps]]"),
        "{said}"
    );
}

#[test]
fn what_follows_the_question_mark_of_a_ledgers_url_is_taken_at_its_word_or_refused() {
    for url in [
        "redis+cluster://a?tls=yes",
        "redis+cluster://a?tls=1",
        "redis+cluster://a?tls",
        "redis+sentinel://a/main?tls=TRUE",
        "unix:///run/redis.sock?db=x",
    ] {
        let found = problems(SMALL, &[&format!("ledger.url={url}")]);
        assert!(
            found[0].to_string().contains("the query accepts only"),
            "{url}: {}",
            found[0]
        );
    }
}

#[test]
fn a_wrong_catalog_is_refused_without_showing_what_may_be_a_password() {
    for (set, said) in [
        (
            "catalog.url=mysql://u:hush@h/d",
            "expected `sqlite`, postgres:// or postgresql://",
        ),
        ("catalog.url=postgres://u:hu/sh@h/d", "write `/` as %2F"),
        (
            "catalog.url=postgres://u:hush@h:x/d",
            "the host ends within",
        ),
        ("catalog.url=postgres://u:hush@/d", "the host is missing"),
        (
            "catalog.url=postgres://u:hush@h/d?sslmode=prefer",
            "can fall back to an unprotected connection",
        ),
        (
            "catalog.url=postgres://u:hush@h/d?sslmode=allow",
            "can fall back to an unprotected connection",
        ),
        (
            "catalog.url=postgres://u:hush@h/d?sslmode=full",
            "sslmode must be verify-full or disable",
        ),
        (
            "catalog.url=postgres://u:hush@h/d?sslmod=disable",
            "unknown setting `sslmod`",
        ),
        (
            "catalog.url=postgres://u:hush@h/d?sslcert=/a",
            "sslcert and sslkey need each other",
        ),
        (
            "catalog.url=postgres://u:hush@h/d?target_session_attrs=any",
            "must be read-write",
        ),
        (
            "catalog.url=postgres://u:hush@h/d?connect_timeout=0",
            "connect_timeout must be",
        ),
        ("catalog.lease=0s", "longer than zero"),
        ("catalog.lease=999ms", "from 1s to 1h"),
        ("catalog.lease=61min", "from 1s to 1h"),
        ("catalog.connections=0", "from 1 to 64"),
        ("catalog.connections=65", "from 1 to 64"),
        ("catalog.schema=pg_mine", "lower-case letters"),
        ("catalog.schema=Mine", "lower-case letters"),
        ("catalog.schema=a;b", "lower-case letters"),
    ] {
        let found = problems(SMALL, &[set]);
        let message = found[0].to_string();
        assert!(message.contains(said), "{set}: {message}");
        assert!(!message.contains("hu"), "{message}");
    }
}

#[test]
fn a_password_of_the_catalog_is_in_one_place_only() {
    let password = "catalog.password={ env = \"PW\" }";
    let found = problems(SMALL, &["catalog.url=postgres://u:hush@h/d", password]);
    let message = found[0].to_string();
    assert!(
        message.contains("catalog.url already contains a password"),
        "{message}"
    );
    assert!(!message.contains("hush"), "{message}");
    assert!(parse(SMALL, &["catalog.url=sqlite", password]).is_ok());
}

#[test]
fn a_rule_that_names_a_limit_which_no_credential_has_is_refused() {
    let errors = |limit: &str| {
        format!(
            "upstreams.things.errors=[{{ status = 429, class = \"spent\", limit = \"{limit}\" }}]"
        )
    };
    let found = problems(SMALL, &[&errors("dayli")]);
    let said = found[0].to_string();
    assert!(
        said.contains("no credential of this upstream has this limit")
            && said.contains("write daily"),
        "{said}"
    );
    crate::right(SMALL, &[&errors("daily")]);
}

#[test]
fn a_region_value_in_doubled_braces_is_refused_wherever_templates_are() {
    let regions = "[regions.US]\ncity = \"Boston\"\n[regions.GB]\ncity = \"London\"";
    let text = small_with("regions = [\"US\", \"GB\"]", regions);
    let call = "upstreams.things.calls.'things.list'";
    let cases = [
        ("path", "'things/{{city}}'"),
        ("headers.x-city", "'{{ city }}'"),
        ("params.q.0", "['{{city}}']"),
        ("json.a.0.b", "[{ b = 'in {{city}}' }]"),
        ("form.a", "'{{city}}'"),
        ("graphql.variables.a", "'{{city}}'"),
    ];
    for (place, value) in cases {
        let key = place.split(".0").next().unwrap();
        let mut sets = vec![format!("{call}.{key}={value}")];
        if place.starts_with("graphql") {
            sets.push(format!("{call}.graphql.query='{{ city }}'"));
        }
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let found = problems(&text, &sets);
        assert_eq!(found.len(), 1, "{place}: {found:?}");
        assert!(found[0].path.ends_with(place), "{place}: {found:?}");
        assert!(
            found[0].expected.contains("`{{city}}` is text"),
            "{found:?}"
        );
    }
    let sets = [format!("{call}.json={{ a = '{{{{ town }}}} is text' }}")];
    assert!(parse(&text, &[&sets[0]]).is_ok());
}
