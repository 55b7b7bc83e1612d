//! `ingest exec CREDENTIAL CALL -- COMMAND …`: the command runs only when its charge is granted.

use std::io::{self, IsTerminal, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Listener, SignalKind};

use super::charge::{Charging, Word};
use super::environment::Environment;
use super::signals::{hang_up, listener, received};
use super::{Error, output};
use crate::cli::{ExecArgs, Format, Global, Log};
use crate::exit::Exit;

/// The environment variable with the id of the charge.
const ID: &str = "INGEST_CHARGE_ID";

/// Charges the call, runs the command, and returns its exit code.
pub async fn exec(global: &Global, args: &ExecArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let charging = Charging::new(&environment, &args.charge)?;
    let charged = charging.charge(&environment).await?;
    if !matches!(charged.decision, Word::Granted | Word::Unmetered) {
        match global.format {
            Format::Json => output::json(&charged)?,
            Format::Text if global.log == Log::Json => {
                tracing::error!("{}", output::shown(&charged.detail));
            }
            // Stdout belongs to the command, so messages go to stderr.
            Format::Text => drop(writeln!(
                io::stderr().lock(),
                "ingest: {}",
                output::shown(&charged.detail)
            )),
        }
        return Ok(charged.exit());
    }
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(Error::Usage("no command after --".to_owned()));
    };
    let id = charged
        .id
        .as_ref()
        .ok_or_else(|| Error::Refused("the charge has no id".to_owned()))?;
    // From here on a signal goes to the command: if it ended this process first, nothing would wait for the command.
    let signals = Signals::listen()?;
    match Command::new(program)
        .args(arguments)
        .env(ID, id.as_str())
        .spawn()
    {
        Ok(child) => Ok(exit(wait(child, signals).await?)),
        Err(error) => {
            let program = program.to_string_lossy();
            // An earlier command was charged under this id and may have used it, so its charge is not given back.
            if charged.repeated {
                let what = format!(
                    "cannot start {program}; id {id} was charged by an earlier command and stays \
                    charged"
                );
                return Err(Error::io(what)(error));
            }
            charging.release(&environment, id).await?;
            Err(Error::io(format!(
                "cannot start {program}; the charge was released"
            ))(error))
        }
    }
}

/// The signals that end this process.
struct Signals {
    terminate: Listener,
    interrupt: Listener,
    /// `None`: it is ignored, and so it is by the command.
    hang_up: Option<Listener>,
}

impl Signals {
    /// Listens from now on; a signal is kept until `next` reads it.
    fn listen() -> Result<Self, Error> {
        Ok(Self {
            terminate: listener(SignalKind::terminate())?,
            interrupt: listener(SignalKind::interrupt())?,
            hang_up: hang_up()?,
        })
    }
}

/// Waits for the command, and passes signals on to it.
async fn wait(mut child: Child, mut signals: Signals) -> Result<ExitStatus, Error> {
    loop {
        let signal = tokio::select! {
            ended = child.wait() => return ended.map_err(Error::io("cannot wait for the command")),
            _ = signals.terminate.recv() => Signal::TERM,
            // A terminal signals the command itself, and many programs take a second signal for "at once".
            _ = signals.interrupt.recv() => if io::stdin().is_terminal() { continue } else { Signal::INT },
            () = received(&mut signals.hang_up) => Signal::HUP,
        };
        if let Some(pid) = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
        {
            // The command may have ended meanwhile.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Returns the exit code that a shell would report.
fn exit(status: ExitStatus) -> Exit {
    let code = status
        .code()
        .unwrap_or_else(|| status.signal().unwrap_or(0).saturating_add(128));
    Exit::Passed(u8::try_from(code).unwrap_or(u8::MAX))
}
