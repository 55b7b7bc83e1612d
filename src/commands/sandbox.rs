//! `ingest sandbox`, and the sandbox under a run.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::json;
use url::Url;

use super::environment::Environment;
use super::output::Message;
use super::{Error, output, signals};
use crate::cli::{Global, SandboxArgs};
use crate::exit::Exit;
use ingest_config::SecretSource;
use ingest_quota::Units;
use ingest_sandbox::{AnswerOrigin, Options, Sandbox, SavedResponses};
use ingest_secret::Secret;
use secrecy::SecretString;

/// Serves until a signal ends it.
pub async fn sandbox(global: &Global, args: &SandboxArgs) -> Result<Exit, Error> {
    if !(0.0..=1.0).contains(&args.failure_rate) {
        return Err(Error::Usage(format!(
            "--failure-rate {} is out of range; give a value from 0 to 1",
            args.failure_rate
        )));
    }
    let environment = Environment::load_or_built_in(global)?;
    let options = Options {
        listen: args.listen,
        latency: args.latency,
        failure_rate: args.failure_rate,
        quota: args.quota.map(Units::new),
        seed: args.seed,
        saved: saved(&environment, args)?,
        secrets: secrets(&environment).await,
    };
    let mut stop = signals::listen(
        "requests in flight are completed first",
        crate::run::Waits::default(),
    )?;
    let sandbox = start(&environment, options).await?;
    announce(&sandbox, global)?;
    stop.wait().await;
    sandbox.shutdown().await;
    Ok(Exit::Success)
}

/// The responses that the user saved.
fn saved(environment: &Environment, args: &SandboxArgs) -> Result<SavedResponses, Error> {
    let Some(directory) = &args.answers else {
        return Ok(SavedResponses::default());
    };
    SavedResponses::read(directory, &environment.config)
        .map_err(|error| Error::Usage(format!("cannot read saved responses: {error}")))
}

/// The configured secrets that can be read here, by which the sandbox tells credentials apart. It runs no command for one.
async fn secrets(environment: &Environment) -> BTreeMap<String, SecretString> {
    let mut secrets = BTreeMap::new();
    for (name, credential) in &environment.config.credentials {
        let source = credential.secret.clone();
        let source = source.filter(|source| !matches!(source, SecretSource::Command(_)));
        let read = Secret::new(name, source).reveal().await;
        let secret = read.ok().and_then(|revealed| revealed.secret);
        secrets.extend(secret.map(|secret| (name.clone(), secret)));
    }
    secrets
}

/// Replaces every upstream by the sandbox, with a separate state directory: a sandbox run never touches a real ledger or
/// catalog.
pub async fn practise(global: &Global) -> Result<(Environment, Sandbox), Error> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = Options {
        listen,
        seed: 1,
        ..Options::default()
    };
    let environment = Environment::load_or_built_in(global)?;
    let sandbox = start(&environment, options).await?;
    let is_used = |upstream: &str, call: &str| {
        let mut steps = environment.config.steps();
        steps.any(|(job, step)| job.credential.upstream.name == upstream && step.call.name == call)
    };
    if let Some(mirrored) = mirrored(&sandbox, is_used) {
        tracing::warn!(
            "the sandbox generates the responses of {mirrored} from the configuration, so they cannot \
            show its mistakes; check a real response with `ingest try`"
        );
    }
    let base_urls = sandbox.base_urls();
    let redirected = base_urls.iter().map(|(name, url)| {
        format!(
            "upstreams.{}.base_url={}",
            quoted(name),
            quoted(url.as_str())
        )
    });
    // Read again, with the addresses that the sandbox was given.
    let environment = Environment::practice(global, redirected.collect())?;
    environment.tell_built_in();
    Ok((environment, sandbox))
}

/// The commands that read what a sandbox run stored, with the options that the run had.
pub fn next_steps(global: &Global, environment: &Environment) -> String {
    let options = [
        ("--config", &global.config),
        ("--state-dir", &global.state_dir),
    ];
    let options = options
        .into_iter()
        .filter_map(|(option, path)| Some((option, path.as_deref()?)));
    let options: String = options
        .map(|(option, path)| format!(" {option} {}", path.display()))
        .collect();
    let mut steps = environment.config.steps();
    let kind = steps.find_map(|(_, step)| step.call.records.as_ref());
    let export = kind.map(|records| format!("export --kind {}", records.kind));
    let commands = ["status".to_owned(), "search WORDS".to_owned()];
    let commands = commands.into_iter().chain(export);
    let lines = commands.map(|command| format!("\n  ingest {command} --sandbox{options}"));
    format!("\nSee what it stored:{}", lines.collect::<String>())
}

/// The calls whose responses are generated from the configuration; `None`: there are none.
fn mirrored(sandbox: &Sandbox, is_used: impl Fn(&str, &str) -> bool) -> Option<String> {
    let origins = sandbox.origins().into_iter();
    let generated = origins.filter(|(upstream, call, origin)| {
        *origin == AnswerOrigin::Generated && is_used(upstream, call)
    });
    let calls: Vec<String> = generated
        .map(|(upstream, call, _)| format!("{upstream} {call}"))
        .collect();
    (!calls.is_empty()).then(|| calls.join(", "))
}

/// A key of a dotted path, or a text.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

async fn start(environment: &Environment, options: Options) -> Result<Sandbox, Error> {
    let what = format!(
        "cannot listen on {}; choose another address with --listen",
        options.listen
    );
    Sandbox::start(&environment.config, options, Arc::clone(&environment.clock))
        .await
        .map_err(Error::io(what))
}

fn announce(sandbox: &Sandbox, global: &Global) -> Result<(), Error> {
    let urls = sandbox.base_urls();
    let report = json!({
        "address": sandbox.address(),
        "base_urls": urls.iter().map(|(name, url)| (name, url.as_str())).collect::<BTreeMap<_, _>>(),
        "responses": responses(sandbox),
    });
    output::report(global, &report, |_| {
        Message::Result(in_words(sandbox, &urls))
    })
}

fn in_words(sandbox: &Sandbox, urls: &[(String, Url)]) -> String {
    let mirrored = mirrored(sandbox, |_, _| true).map(|calls| {
        format!(
            "\nGenerated from the configuration, so that they cannot show its mistakes: the responses \
            of {calls}. Serve saved responses with --answers DIR"
        )
    });
    let set = urls
        .iter()
        .map(|(name, url)| format!("  --set upstreams.{name}.base_url={url}"));
    format!(
        "Sandbox listening on http://{}; press Ctrl-C to stop. Use it in a run with any key (the \
        name of a credential is a key of that credential) and\n{}\nUsage counters: http://{}/_sandbox/usage{}",
        sandbox.address(),
        set.collect::<Vec<_>>().join("\n"),
        sandbox.address(),
        mirrored.unwrap_or_default()
    )
}

/// Where the responses of each call come from, by upstream and call.
fn responses(sandbox: &Sandbox) -> serde_json::Value {
    let mut upstreams: BTreeMap<String, BTreeMap<String, AnswerOrigin>> = BTreeMap::new();
    for (upstream, call, origin) in sandbox.origins() {
        upstreams.entry(upstream).or_default().insert(call, origin);
    }
    json!(upstreams)
}
