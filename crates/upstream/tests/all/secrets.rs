//! Where a secret is read, how long it is kept, and that nobody ever sees it.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use ingest_config::{Auth, PageKind, Paging, SecretSource};
use ingest_secret::{PATIENCE, Secret, SecretError, read};
use ingest_upstream::Upstream as _;
use ingest_upstream::{Client, Failure};
use secrecy::ExposeSecret;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use super::{Asking, SECRET, answering, asking, pointer, things, told};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

async fn read_from(
    source: SecretSource,
    variables: &[(&'static str, &[u8])],
) -> Result<String, SecretError> {
    let variables: Vec<(&str, Vec<u8>)> = variables
        .iter()
        .map(|(name, value)| (*name, value.to_vec()))
        .collect();
    let environment = move |wanted: &str| {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| OsString::from_vec(value.clone()))
    };
    read("main", &source, &environment, PATIENCE)
        .await
        .map(|secret| secret.expose_secret().to_owned())
}

fn file(directory: &Path, content: &[u8], mode: u32) -> std::path::PathBuf {
    let path = directory.join("key");
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn command(words: &[&str]) -> SecretSource {
    SecretSource::Command(words.iter().map(|&word| word.to_owned()).collect())
}

#[tokio::test]
async fn a_variable_may_name_a_file_instead() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), format!("{SECRET}\n").as_bytes(), 0o600);
    let named = ("KEY_FILE", path.as_os_str().as_encoded_bytes());
    let source = || SecretSource::Env("KEY".to_owned());
    assert_eq!(read_from(source(), &[named]).await.unwrap(), SECRET);
    let both = read_from(source(), &[("KEY", b"the-nearer-one"), named]).await;
    assert_eq!(both.unwrap(), "the-nearer-one");
    let missing = read_from(source(), &[("KEY_FILE", b"/nowhere/key")])
        .await
        .unwrap_err();
    assert!(missing.to_string().contains("/nowhere/key"), "{missing}");
}

#[tokio::test]
async fn a_secret_that_cannot_be_had_is_told_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let empty = file(directory.path(), b" \n", 0o600);
    let env = || SecretSource::Env("MY_KEY".to_owned());
    type Case = (
        SecretSource,
        &'static [(&'static str, &'static [u8])],
        &'static str,
    );
    let cases: [Case; 12] = [
        (
            env(),
            &[],
            "the secret is not set: set MY_KEY, or set MY_KEY_FILE to the path of a file with it, or configure another place",
        ),
        (
            env(),
            &[("MY_KEY", b"")],
            "the secret is empty: put it into MY_KEY",
        ),
        (
            env(),
            &[("MY_KEY", b"caf\xe9")],
            "the secret from MY_KEY contains",
        ),
        (
            env(),
            &[("MY_KEY", b"cl\xc3\xa9")],
            "the secret from MY_KEY contains",
        ),
        (
            env(),
            &[("MY_KEY", b"two\nlines")],
            "the secret from MY_KEY contains a line break",
        ),
        (
            SecretSource::File("/nowhere/key".into()),
            &[],
            "cannot read the secret's file /nowhere/key: No such file",
        ),
        (
            SecretSource::File(empty),
            &[],
            "the secret is empty: put it into /",
        ),
        (
            SecretSource::Credential("key".to_owned()),
            &[],
            "$CREDENTIALS_DIRECTORY is not set: start ingest as a systemd unit with `LoadCredential=key:",
        ),
        (
            command(&["no-such-program-here"]),
            &[],
            "cannot run `no-such-program-here` for the secret: No such file",
        ),
        (
            command(&["sh", "-c", "echo; echo 'log in first' >&2; exit 3"]),
            &[],
            "`sh` printed no secret, exit status: 3: log in first;",
        ),
        (
            command(&["true"]),
            &[],
            "`true` printed no secret: run it by hand",
        ),
        (
            command(&["printf", "one\\ntwo\\n"]),
            &[],
            "the secret from `printf` contains a line break",
        ),
    ];
    for (source, variables, expected) in cases {
        let error = read_from(source.clone(), variables)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(&format!("credential `main`: {expected}")),
            "{source:?}: {error}"
        );
    }
}

#[tokio::test]
async fn a_secret_in_a_pipe_is_read_and_a_pipe_that_nobody_closes_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    let source = SecretSource::File(path.clone());
    let patience = Duration::from_millis(200);
    let nobody = read("main", &source, &|_| None, patience).await;
    let nobody = nobody.unwrap_err().to_string();
    assert!(
        nobody.contains("the secret is empty: put it into /"),
        "{nobody}"
    );
    let mut writer = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    std::io::Write::write_all(&mut writer, b"0123\n").unwrap();
    let open = read("main", &source, &|_| None, patience).await;
    let open = open.unwrap_err().to_string();
    assert!(
        open.contains("is a pipe that was not closed within 0 s"),
        "{open}"
    );
    std::io::Write::write_all(&mut writer, b"4567\n").unwrap();
    let closing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(writer);
    });
    let secret = read("main", &source, &|_| None, Duration::from_secs(10)).await;
    closing.join().unwrap();
    assert_eq!(secret.unwrap().expose_secret(), "4567");
}

#[tokio::test]
async fn a_command_that_hangs_is_given_up() {
    let hanging = command(&["sleep", "1000"]);
    let error = read("main", &hanging, &|_| None, Duration::from_millis(50))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`sleep` printed no secret within 0 s"),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_secret_is_found_before_anything_is_sent() {
    let stub = answering(StubAnswer::json(&things(&["a"])));
    let mut asking = asking(&stub.url());
    asking.upstream.auth = Auth::Bearer;
    let secret = Secret::new("main", Some(SecretSource::Env("NO_SUCH_KEY".to_owned())));
    let client = Client::new(Arc::new(asking.upstream.clone()), secret).unwrap();
    assert!(client.ready().await.is_err());
    let failure = asking.fetch_by(&client).await.unwrap_err();
    assert!(
        told(&failure)
            .starts_with("not sent: credential `main`: the secret is not set: set NO_SUCH_KEY"),
        "{failure}"
    );
    assert!(stub.requests().is_empty());
}

/// A client whose secret is what a script prints: `1`, then `2`, and so on.
fn counting(asking: &Asking, directory: &Path) -> Client {
    let script = "n=$(cat n 2>/dev/null || echo 0); n=$((n + 1)); echo $n | tee n";
    let source = command(&[
        "sh",
        "-c",
        &format!("cd '{}' && {{ {script}; }}", directory.display()),
    ]);
    Client::new(
        Arc::new(asking.upstream.clone()),
        Secret::new("main", Some(source)),
    )
    .unwrap()
}

/// An upstream that takes the tokens that `takes` says.
fn taking(takes: impl Fn(&str, usize) -> bool + Send + Sync + 'static) -> StubUpstream {
    StubUpstream::start(move |request| {
        let token = request
            .header("authorization")
            .and_then(|value| value.strip_prefix("Bearer "))
            .unwrap_or_default();
        if takes(token, request.number) {
            StubAnswer::json(&things(&["a"]))
        } else {
            StubAnswer::text(401, "expired")
        }
    })
}

fn bearer(url: &str) -> Asking {
    let mut asking = asking(url);
    asking.upstream.auth = Auth::Bearer;
    asking
}

#[tokio::test]
async fn a_token_that_ran_out_is_fetched_again_for_the_next_attempt() {
    // The first token is taken twice, the second from then on.
    let stub = taking(|token, number| token == "1" && number < 2 || token == "2");
    let (asking, directory) = (bearer(&stub.url()), tempfile::tempdir().unwrap());
    let client = counting(&asking, directory.path());
    for expected in [
        "ok",
        "ok",
        "transient: 401 Unauthorized: expired (GET /things); fetched a new secret",
        "ok",
        "ok",
    ] {
        let told = asking
            .fetch_by(&client)
            .await
            .map_or_else(|failure| told(&failure), |_| "ok".to_owned());
        assert_eq!(told, expected);
    }
    assert_eq!(stub.requests().len(), 5, "each attempt is one request");
}

#[tokio::test]
async fn a_token_that_ran_out_is_fetched_again_once_for_all_who_hold_it() {
    let stub = taking(|token, _| token == "2");
    let (asking, directory) = (bearer(&stub.url()), tempfile::tempdir().unwrap());
    let client = counting(&asking, directory.path());
    let pages = join_all((0..4).map(|_| asking.fetch_by(&client))).await;
    assert!(
        pages
            .iter()
            .all(|page| matches!(page, Err(Failure::Transient { .. }))),
        "{pages:?}"
    );
    assert_eq!(
        std::fs::read_to_string(directory.path().join("n")).unwrap(),
        "2\n"
    );
}

#[tokio::test]
async fn a_token_that_is_refused_anew_is_denied() {
    let stub = taking(|_, _| false);
    let (asking, directory) = (bearer(&stub.url()), tempfile::tempdir().unwrap());
    let client = counting(&asking, directory.path());
    assert!(matches!(
        asking.fetch_by(&client).await,
        Err(Failure::Transient { .. })
    ));
    for _ in 0..3 {
        assert!(matches!(
            asking.fetch_by(&client).await,
            Err(Failure::Denied(_))
        ));
    }
    let tokens: Vec<_> = stub
        .requests()
        .iter()
        .map(|request| request.header("authorization").unwrap().to_owned())
        .collect();
    assert_eq!(tokens, ["Bearer 1", "Bearer 2", "Bearer 2", "Bearer 2"]);
}

#[tokio::test]
async fn a_token_that_comes_back_the_same_is_denied_at_once() {
    let stub = taking(|_, _| false);
    let asking = bearer(&stub.url());
    let secret = Secret::new("main", Some(command(&["echo", "same"])));
    let client = Client::new(Arc::new(asking.upstream.clone()), secret).unwrap();
    assert!(matches!(
        asking.fetch_by(&client).await,
        Err(Failure::Denied(_))
    ));
}

#[tokio::test]
async fn a_secret_that_is_no_token_is_denied_at_once() {
    let stub = taking(|_, _| false);
    assert!(matches!(
        asking(&stub.url()).auth(Auth::Bearer).fetch().await,
        Err(Failure::Denied(_))
    ));
}

#[tokio::test]
async fn an_upstream_without_auth_is_never_told_a_secret() {
    let stub = answering(StubAnswer::json(&things(&["a"])));
    let asking = asking(&stub.url()).auth(Auth::None);
    asking.fetch().await.unwrap();
    let request = format!("{:?}", stub.requests());
    assert!(!request.contains(SECRET));
}

/// Everything that is traced, as text.
#[derive(Clone, Default)]
struct Traced(Arc<Mutex<Vec<u8>>>);

impl Write for Traced {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Traced {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Traced {
    /// Traces this thread until the guard is dropped.
    fn start(&self) -> tracing::subscriber::DefaultGuard {
        let all = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(self.clone());
        tracing::subscriber::set_default(all.finish())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// An upstream that says back all that it was told, in every way it can.
fn echoing(answer: impl Fn(String) -> StubAnswer + Send + Sync + 'static) -> StubUpstream {
    StubUpstream::start(move |request| {
        let shown = request
            .param("key")
            .or(request.header("x-key"))
            .or(request.header("authorization"));
        let secret = shown.unwrap_or_default().trim_start_matches("Bearer ");
        let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        answer(format!("{secret} {} {encoded}", secret.replace('/', "\\/")))
    })
}

/// Whether the secret, or most of it, stands in a text, in whatever way it is written.
fn holds_secret(text: &str) -> bool {
    text.contains("AbCd-0123456789")
        || text.contains("secret+value")
        || text.contains("secret%2Bvalue")
}

#[tokio::test]
async fn the_secret_is_in_no_error_no_trace_no_page_and_no_debug_text() {
    type Echo = fn(String) -> StubAnswer;
    let echoes: [Echo; 10] = [
        |secret| {
            StubAnswer::error(
                400,
                &json!({ "error": { "message": format!("bad key {secret}") } }),
            )
        },
        |secret| StubAnswer::text(500, &format!("{}{secret}", "x".repeat(170))),
        |secret| StubAnswer::text(403, &format!("<title>{secret}</title>")),
        |secret| {
            StubAnswer::redirect(
                302,
                &format!("https://evil.example/{}", secret.replace(' ', "/")),
            )
        },
        |secret| StubAnswer::text(200, &format!("<title>{secret}</title>")),
        |secret| StubAnswer::json(&json!({ "error": secret })),
        |secret| {
            StubAnswer::json(&json!({ "items": [{ "id": "a", "self": secret }], "next": secret }))
        },
        |secret| {
            StubAnswer::json(&json!({ "items": [{ "id": "a", "asked": { secret: { "as": 1 } } }] }))
        },
        |_| StubAnswer::dropped(),
        |_| StubAnswer::raw("no http"),
    ];
    for auth in [
        Auth::Query("key".to_owned()),
        Auth::Header("x-key".to_owned()),
        Auth::Bearer,
    ] {
        for echo in echoes {
            let traced = Traced::default();
            let guard = traced.start();
            let stub = echoing(echo);
            let next = pointer("/next");
            let paging = Paging {
                kind: PageKind::Token,
                param: Some("page".to_owned()),
                next: Some(next),
                ..Paging::default()
            };
            let asking = asking(&stub.url()).auth(auth.clone()).paging(paging);
            let client = asking.client();
            let page = asking.fetch_by(&client).await;
            drop(guard);
            assert_eq!(stub.requests().len(), 1);
            let all = format!(
                "{page:?} {client:?} {}",
                page.as_ref().map_or_else(told, |_| String::new())
            );
            assert!(!holds_secret(&all), "{all}");
            assert!(!holds_secret(&traced.text()), "{}", traced.text());
        }
    }
}

#[tokio::test]
async fn a_secret_that_looks_like_a_tag_is_in_no_message() {
    type Echo = fn(&str) -> StubAnswer;
    let echoes: [Echo; 2] = [
        |secret| StubAnswer::error(400, &json!({ "error": { "message": secret } })),
        |secret| StubAnswer::text(200, &format!("<title>{secret}</title>")),
    ];
    for echo in echoes {
        let stub = StubUpstream::start(move |request| echo(request.header("x-key").unwrap()));
        let mut asking = asking(&stub.url()).auth(Auth::Header("x-key".to_owned()));
        asking.secret = Some("AbCd-0123456789<q>more");
        let refused = told(&asking.fetch().await.unwrap_err());
        assert!(
            refused.contains("***") && !refused.contains("more"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn the_secret_is_in_no_error_of_a_connection() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for url in [
        format!("http://{free}"),
        "https://nowhere.invalid".to_owned(),
    ] {
        let traced = Traced::default();
        let guard = traced.start();
        let failure = asking(&url)
            .auth(Auth::Query("key".to_owned()))
            .fetch()
            .await
            .unwrap_err();
        drop(guard);
        assert!(
            !holds_secret(&format!("{failure:?} {failure}")),
            "{failure}"
        );
        assert!(!holds_secret(&traced.text()), "{}", traced.text());
    }
}

#[tokio::test]
async fn a_short_secret_does_not_spoil_data_in_which_it_occurs() {
    let stub = answering(StubAnswer::json(&things(&["sandbox-videos"])));
    let mut asking = asking(&stub.url()).auth(Auth::Bearer);
    asking.secret = Some("sandbox");
    assert_eq!(
        super::ids(&asking.fetch().await.unwrap()),
        ["sandbox-videos"]
    );
}

#[tokio::test]
async fn a_short_secret_does_not_spoil_requests_in_which_it_occurs() {
    for paging in [
        Paging {
            kind: PageKind::Link,
            ..Paging::default()
        },
        Paging {
            kind: PageKind::NextUrl,
            next: Some(pointer("/next")),
            ..Paging::default()
        },
    ] {
        let next = "/things?page=2&sort=index";
        let body = json!({ "items": [{ "id": "a" }], "next": next });
        let stub =
            answering(StubAnswer::json(&body).header("link", &format!("<{next}>; rel=next")));
        let mut asking = asking(&stub.url()).auth(Auth::Bearer).paging(paging);
        asking.secret = Some("x");
        assert_eq!(asking.fetch().await.unwrap().next.as_deref(), Some(next));
    }
}

#[tokio::test]
async fn the_secret_is_kept_back_in_each_usual_encoding() {
    let ways = [
        "Zm9v/YmFy+cXV4==",
        "Zm9v%2FYmFy%2BcXV4%3D%3D",
        "Zm9v%2fYmFy%2bcXV4%3d%3d",
        "Zm9v%252FYmFy%252BcXV4%253D%253D",
        "Zm9v\\/YmFy+cXV4==",
        "Wm05di9ZbUZ5K2NYVjQ9PQ==",
    ];
    for way in ways {
        for shown in [
            way.to_owned(),
            format!("{way}{way}"),
            format!("% & \\ + ;{way}&#"),
        ] {
            let stub = answering(StubAnswer::error(
                400,
                &json!({ "error": { "message": shown } }),
            ));
            let mut asking = asking(&stub.url()).auth(Auth::Bearer);
            asking.secret = Some("Zm9v/YmFy+cXV4==");
            let said = told(&asking.fetch().await.unwrap_err());
            assert!(
                said.contains("***") && !said.contains("m9v") && !said.contains("YmFy"),
                "{way}: {said}"
            );
        }
    }
}
