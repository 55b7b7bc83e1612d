//! Access tokens of OAuth 2, and requests that carry several secrets.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ingest_config::{Auth, ClientPlace, Credential, Grant, OAuth, OAuthClient, SecretSource};
use ingest_quota::Account;
use ingest_upstream::{Client, Failure, Upstream as _};
use serde_json::{Value, json};

use super::{Asking, asking, template, things, told};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const CLIENT_SECRET: &str = "cl1ent-s3cret-0123456789";
const REFRESH: &str = "refr3sh-token-0123456789";

fn refresh_grant() -> Grant {
    Grant::RefreshToken(template("{secret:refresh}"))
}

fn oauth(grant: Grant, token_url: &str) -> OAuth {
    OAuth {
        grant,
        token_url: Some(token_url.parse().unwrap()),
        client: Some(OAuthClient {
            id: template("the app"),
            secret: Some(template("{secret:client}")),
            place: ClientPlace::Basic,
        }),
        scope: Some("read write".to_owned()),
        params: BTreeMap::from([("audience".to_owned(), template("api"))]),
    }
}

/// A secret that a command prints, as an environment variable would hold it.
fn printed(text: &str) -> SecretSource {
    SecretSource::Command(vec!["printf".to_owned(), "%s".to_owned(), text.to_owned()])
}

fn credential(asking: &Asking) -> Credential {
    let secrets = [("client", CLIENT_SECRET), ("refresh", REFRESH)];
    Credential {
        name: "main".to_owned(),
        upstream: Arc::new(asking.upstream.clone()),
        secret: None,
        secrets: secrets
            .map(|(name, text)| (name.to_owned(), printed(text)))
            .into(),
        account: Arc::new(Account {
            name: "main".to_owned(),
            limits: BTreeMap::new(),
        }),
        limits: BTreeMap::new(),
    }
}

fn by_oauth(upstream: &StubUpstream, oauth: OAuth) -> Asking {
    let mut asking = asking(&upstream.url());
    asking.upstream.auth = Auth::OAuth(Box::new(oauth));
    asking
}

fn client(asking: &Asking, state: &Path) -> Client {
    Client::for_credential(&credential(asking), state).unwrap()
}

/// An endpoint that issues numbered tokens: access-token-1, access-token-2.
fn issuing(lifetime: impl Into<Option<u64>>, rotates: bool) -> StubUpstream {
    let lifetime = lifetime.into();
    StubUpstream::start(move |request| {
        let number = request.number + 1;
        let mut tokens =
            json!({ "access_token": format!("access-token-{number}"), "token_type": "bearer" });
        if let Some(lifetime) = lifetime {
            tokens["expires_in"] = lifetime.into();
        }
        if rotates {
            tokens["refresh_token"] = format!("rotated-{number}").into();
        }
        StubAnswer::json(&tokens)
    })
}

/// An upstream that accepts these tokens alone.
fn accepting(tokens: &'static [&'static str]) -> StubUpstream {
    StubUpstream::start(move |request| {
        let token = request.header("authorization").unwrap_or_default();
        match tokens.iter().any(|one| token == format!("Bearer {one}")) {
            true => StubAnswer::json(&things(&["a"])),
            false => StubAnswer::error(401, &json!({ "error": "unauthorized" })),
        }
    })
}

fn form(request: &StubRequest) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(&request.body)
        .into_owned()
        .collect()
}

fn authorizations(upstream: &StubUpstream) -> Vec<String> {
    let header = |request: &StubRequest| request.header("authorization").unwrap().to_owned();
    upstream.requests().iter().map(header).collect()
}

#[tokio::test]
async fn client_credentials_are_exchanged_for_a_token_that_every_process_uses() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = issuing(3600, false);
    let upstream = accepting(&["access-token-1"]);
    let asking = by_oauth(&upstream, oauth(Grant::ClientCredentials, &endpoint.url()));
    for _ in 0..2 {
        let client = client(&asking, state.path());
        client.ready().await.unwrap();
        asking.fetch_by(&client).await.unwrap();
        asking.fetch_by(&client).await.unwrap();
    }
    let requests = endpoint.requests();
    assert_eq!((requests.len(), &*requests[0].method), (1, "POST"));
    let expected = [
        ("audience", "api"),
        ("grant_type", "client_credentials"),
        ("scope", "read write"),
    ];
    assert_eq!(
        form(&requests[0]),
        expected
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    );
    let client = STANDARD.encode(format!("the+app:{CLIENT_SECRET}"));
    assert_eq!(
        requests[0].header("authorization"),
        Some(&*format!("Basic {client}"))
    );
    let stored = state.path().join("tokens/main.json");
    let mode = std::fs::metadata(stored).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_client_is_identified_in_the_body_where_the_server_requires_it() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = issuing(3600, false);
    let upstream = accepting(&["access-token-1"]);
    let mut oauth = oauth(Grant::ClientCredentials, &endpoint.url());
    oauth.client.as_mut().unwrap().place = ClientPlace::Body;
    let asking = by_oauth(&upstream, oauth);
    asking
        .fetch_by(&client(&asking, state.path()))
        .await
        .unwrap();
    let request = &endpoint.requests()[0];
    assert_eq!(request.header("authorization"), None);
    let form = form(request);
    assert_eq!(
        (&*form["client_id"], &*form["client_secret"]),
        ("the app", CLIENT_SECRET)
    );
}

#[tokio::test]
async fn a_token_is_renewed_before_it_expires() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = issuing(1, false);
    let upstream = accepting(&["access-token-1", "access-token-2"]);
    let asking = by_oauth(&upstream, oauth(Grant::ClientCredentials, &endpoint.url()));
    let client = client(&asking, state.path());
    client.ready().await.unwrap();
    client.ready().await.unwrap();
    asking.fetch_by(&client).await.unwrap();
    assert_eq!(endpoint.requests().len(), 1);
    // A quarter of its second is left.
    tokio::time::sleep(std::time::Duration::from_millis(800)).await;
    client.ready().await.unwrap();
    asking.fetch_by(&client).await.unwrap();
    assert_eq!(
        authorizations(&upstream),
        ["Bearer access-token-1", "Bearer access-token-2"]
    );
}

#[tokio::test]
async fn a_rejected_token_is_renewed_once_and_a_second_rejection_is_a_refusal() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = issuing(3600, false);
    let upstream = accepting(&["access-token-2"]);
    let asking = by_oauth(&upstream, oauth(Grant::ClientCredentials, &endpoint.url()));
    let first = client(&asking, state.path());
    let failure = asking.fetch_by(&first).await.unwrap_err();
    assert!(matches!(failure, Failure::Transient { .. }), "{failure}");
    asking.fetch_by(&first).await.unwrap();

    let nobody = accepting(&[]);
    let asking = by_oauth(&nobody, oauth(Grant::ClientCredentials, &endpoint.url()));
    let second = client(&asking, state.path());
    let failure = asking.fetch_by(&second).await.unwrap_err();
    assert!(matches!(failure, Failure::Transient { .. }), "{failure}");
    for _ in 0..2 {
        let failure = asking.fetch_by(&second).await.unwrap_err();
        assert!(matches!(failure, Failure::Denied(_)), "{failure}");
    }
    // One at first, one after each client's rejection.
    assert_eq!(endpoint.requests().len(), 3);
}

#[tokio::test]
async fn no_token_is_requested_where_a_replaced_refresh_token_could_not_be_stored() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = issuing(3600, true);
    let upstream = accepting(&["access-token-1"]);
    let asking = by_oauth(&upstream, oauth(refresh_grant(), &endpoint.url()));
    let stored = format!("tokens/{}.json", credential(&asking).name);
    std::fs::create_dir_all(state.path().join(stored)).unwrap();
    let refused = asking.fetch_by(&client(&asking, state.path())).await;
    let said = told(&refused.unwrap_err());
    assert!(said.contains("cannot store access tokens"), "{said}");
    assert_eq!(endpoint.requests().len(), 0);
}

#[tokio::test]
async fn another_refresh_token_in_the_configuration_replaces_a_stored_one() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = issuing(3600, true);
    let upstream = accepting(&["access-token-1", "access-token-2"]);
    let asking = by_oauth(&upstream, oauth(refresh_grant(), &endpoint.url()));
    asking
        .fetch_by(&client(&asking, state.path()))
        .await
        .unwrap();
    let mut credential = credential(&asking);
    credential
        .secrets
        .insert("refresh".to_owned(), printed("authorized-again"));
    let again = Client::for_credential(&credential, state.path()).unwrap();
    asking.fetch_by(&again).await.unwrap();
    assert_eq!(
        form(&endpoint.requests()[1])["refresh_token"],
        "authorized-again"
    );
}

#[tokio::test]
async fn processes_at_the_same_time_use_a_rotating_refresh_token_once() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = issuing(3600, true);
    let upstream = accepting(&["access-token-1"]);
    let asking = by_oauth(&upstream, oauth(refresh_grant(), &endpoint.url()));
    let clients: Vec<Client> = (0..5).map(|_| client(&asking, state.path())).collect();
    let ready = clients.iter().map(|client| client.ready());
    for ready in futures_util::future::join_all(ready).await {
        ready.unwrap();
    }
    assert_eq!(endpoint.requests().len(), 1);
}

#[tokio::test]
async fn a_token_endpoint_that_fails_is_requested_again_and_then_left_alone_for_a_while() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = StubUpstream::answering([StubAnswer::error(503, &json!({}))]);
    let upstream = accepting(&[]);
    let asking = by_oauth(&upstream, oauth(Grant::ClientCredentials, &endpoint.url()));
    let client = client(&asking, state.path());
    for _ in 0..3 {
        let failure = client.ready().await.unwrap_err();
        assert!(
            told(&failure).starts_with("not sent: no access token after 4 attempts: "),
            "{failure}"
        );
    }
    assert_eq!(
        (endpoint.requests().len(), upstream.requests().len()),
        (4, 0)
    );
}

#[tokio::test]
async fn a_refusal_of_the_token_endpoint_says_why_and_shows_no_secret() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = StubUpstream::start(|request| {
        let form = form(request);
        StubAnswer::error(
            400,
            &json!({
                "error": "invalid_grant",
                "error_description": format!(
                    "Token {} of {CLIENT_SECRET} has been revoked.", form["refresh_token"]
                ),
            }),
        )
    });
    let upstream = accepting(&[]);
    let asking = by_oauth(&upstream, oauth(refresh_grant(), &endpoint.url()));
    let client = client(&asking, state.path());
    let failure = client.ready().await.unwrap_err();
    let text = failure.to_string();
    assert!(
        text.contains("refused: 400 invalid_grant: Token *** of *** has been revoked"),
        "{text}"
    );
    assert!(!format!("{client:?} {failure:?}").contains("s3cret"));
    assert_eq!(endpoint.requests().len(), 1);
}

#[tokio::test]
async fn a_response_without_a_token_is_a_refusal() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = StubUpstream::answering([StubAnswer::json(
        &json!({ "ok": false, "error": "bad_client" }),
    )]);
    let upstream = accepting(&[]);
    let asking = by_oauth(&upstream, oauth(Grant::ClientCredentials, &endpoint.url()));
    let failure = client(&asking, state.path()).ready().await.unwrap_err();
    assert!(
        failure
            .to_string()
            .contains("returned no access_token: bad_client"),
        "{failure}"
    );
    // The token can be at another place, or in another form; and a proxy or a failing server rejects no secret.
    for (status, body, said) in [
        (
            200,
            r#"{"accessToken":"t0ken","data":{"access_token":"t0ken"}}"#,
            "accessToken, data",
        ),
        (
            200,
            r#"{"access_token":["t0ken"]}"#,
            "access_token is no text",
        ),
        (
            200,
            "access_token=t0ken&token_type=bearer",
            "no JSON object",
        ),
        (200, "<html>back soon</html>", "no JSON object"),
        (400, r#"{"error":"server_error"}"#, "server_error"),
    ] {
        let endpoint = StubUpstream::start(move |_| StubAnswer::text(status, body));
        let asking = by_oauth(&upstream, oauth(Grant::ClientCredentials, &endpoint.url()));
        let state = tempfile::tempdir().unwrap();
        let failure = client(&asking, state.path()).ready().await.unwrap_err();
        let text = failure.to_string();
        assert!(text.contains(said) && !text.contains("t0ken"), "{text}");
        assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
        assert!(endpoint.requests().len() > 1);
    }
}

#[tokio::test]
async fn a_token_endpoint_that_is_away_when_a_token_is_rejected_refuses_no_request() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = StubUpstream::start(|request| match request.number {
        0 => StubAnswer::json(&json!({ "access_token": "access-token-1" })),
        _ => StubAnswer::text(503, "away"),
    });
    let upstream = accepting(&[]);
    let asking = by_oauth(&upstream, oauth(Grant::ClientCredentials, &endpoint.url()));
    let client = client(&asking, state.path());
    let failure = asking.fetch_by(&client).await.unwrap_err();
    assert!(matches!(failure, Failure::Transient { .. }), "{failure}");
}

/// A key that was made for this test and protects nothing.
const PRIVATE_KEY: &str = include_str!("throwaway_rsa_key.pem");

/// A service account's key as Google issues it, and the public key.
fn service_account(token_uri: &str) -> (String, Vec<u8>) {
    use ring::signature::KeyPair;
    use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
    let der = PrivatePkcs8KeyDer::from_pem_slice(PRIVATE_KEY.as_bytes()).unwrap();
    let key = ring::signature::RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap();
    let document = json!({
        "type": "service_account",
        "client_email": "worker@project.example",
        "private_key_id": "k1",
        "private_key": PRIVATE_KEY,
        "token_uri": token_uri,
    });
    let document = serde_json::to_string_pretty(&document).unwrap();
    (document, key.public_key().as_ref().to_vec())
}

#[tokio::test]
async fn a_service_account_signs_a_claim_with_its_key() {
    let state = tempfile::tempdir().unwrap();
    let endpoint = issuing(3600, false);
    let upstream = accepting(&["access-token-1"]);
    let (key, public) = service_account(&endpoint.url());
    let path = state.path().join("key.json");
    std::fs::write(&path, key).unwrap();
    let grant = Grant::ServiceAccount {
        key: template("{secret}"),
        subject: None,
    };
    let asking = by_oauth(
        &upstream,
        OAuth {
            grant,
            token_url: None,
            client: None,
            scope: Some("https://scopes.example/read".to_owned()),
            params: BTreeMap::new(),
        },
    );
    let credential = Credential {
        secret: Some(SecretSource::File(path)),
        secrets: BTreeMap::new(),
        ..credential(&asking)
    };
    let client = Client::for_credential(&credential, state.path()).unwrap();
    client.has_secrets().await.unwrap();
    assert_eq!(endpoint.requests().len(), 0);
    asking.fetch_by(&client).await.unwrap();
    let form = form(&endpoint.requests()[0]);
    assert_eq!(
        form["grant_type"],
        "urn:ietf:params:oauth:grant-type:jwt-bearer"
    );
    let (signed, signature) = form["assertion"].rsplit_once('.').unwrap();
    let public = ring::signature::UnparsedPublicKey::new(
        &ring::signature::RSA_PKCS1_2048_8192_SHA256,
        public,
    );
    public
        .verify(
            signed.as_bytes(),
            &URL_SAFE_NO_PAD.decode(signature).unwrap(),
        )
        .unwrap();
    let claims = URL_SAFE_NO_PAD
        .decode(signed.split_once('.').unwrap().1)
        .unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(claims["iss"], "worker@project.example");
    assert_eq!(claims["aud"], format!("{}/", endpoint.url()));
    assert_eq!(claims["scope"], "https://scopes.example/read");
    assert_eq!(
        claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(),
        3600
    );
}

#[tokio::test]
async fn basic_authentication_carries_a_user_and_a_password() {
    let state = tempfile::tempdir().unwrap();
    let upstream = StubUpstream::start(|request| {
        // It echoes what it received.
        StubAnswer::json(
            &json!({ "items": [{ "id": "a", "echo": request.header("authorization") }] }),
        )
    });
    let mut asking = asking(&upstream.url());
    asking.upstream.auth = Auth::Basic {
        user: template("{secret:client}"),
        password: template(""),
    };
    let page = asking
        .fetch_by(&client(&asking, state.path()))
        .await
        .unwrap();
    let value = STANDARD.encode(format!("{CLIENT_SECRET}:"));
    assert_eq!(authorizations(&upstream), [format!("Basic {value}")]);
    assert_eq!(page.records[0].body["echo"], "Basic ***");
}

#[tokio::test]
async fn an_access_token_that_the_upstream_repeats_is_hidden() {
    let state = tempfile::tempdir().unwrap();
    let token = "access-token-0123456789";
    let endpoint = StubUpstream::start(move |_| {
        StubAnswer::json(&json!({ "access_token": token, "token_type": "bearer" }))
    });
    let upstream = StubUpstream::start(|request| {
        StubAnswer::json(
            &json!({ "items": [{ "id": "a", "echo": request.header("authorization") }] }),
        )
    });
    let asking = by_oauth(&upstream, oauth(Grant::ClientCredentials, &endpoint.url()));
    let client = client(&asking, state.path());
    client.ready().await.unwrap();
    let page = asking.fetch_by(&client).await.unwrap();
    assert_eq!(authorizations(&upstream), [format!("Bearer {token}")]);
    assert_eq!(page.records[0].body["echo"], "Bearer ***");
}

#[tokio::test]
async fn headers_and_parameters_carry_secrets_that_no_cursor_and_no_record_holds() {
    use ingest_config::{PageKind, Paging};
    let state = tempfile::tempdir().unwrap();
    let upstream = StubUpstream::start(|request| {
        let key = request.param("key").unwrap();
        StubAnswer::json(&json!({
            "items": [{ "id": format!("{}", request.number), "app": request.header("x-app"), "key": key }],
            "next": format!("/things?page=2&key={key}"),
        }))
    });
    let asking = asking(&upstream.url()).paging(Paging {
        kind: PageKind::NextUrl,
        next: Some(super::pointer("/next")),
        ..Paging::default()
    });
    let mut asking = asking.param("key", "{secret:refresh}");
    asking
        .call
        .headers
        .insert("x-app".to_owned(), template("app {secret:client}"));
    let client = client(&asking, state.path());
    let page = asking.fetch_by(&client).await.unwrap();
    assert_eq!(page.next.as_deref(), Some("/things?page=2"));
    assert_eq!(
        page.records[0].body,
        json!({ "id": "0", "app": "app ***", "key": "***" })
    );
    asking.cursor = page.next;
    asking.fetch_by(&client).await.unwrap();
    for request in upstream.requests() {
        assert_eq!(request.param("key"), Some(REFRESH));
        assert_eq!(
            request.header("x-app"),
            Some(&*format!("app {CLIENT_SECRET}"))
        );
    }
    assert_eq!(upstream.requests()[1].param("page"), Some("2"));
}
