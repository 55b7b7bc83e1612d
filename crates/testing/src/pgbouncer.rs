//! PgBouncer in transaction mode, before a server.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use tempfile::TempDir;

use super::postgres::{PostgresServer, as_its_user, other_user, program};
use super::redis_server::{free_port, wait_until};

pub struct PgBouncer {
    child: Child,
    port: u16,
    directory: TempDir,
    /// Whether it is reached by its socket only.
    is_local: bool,
}

impl PgBouncer {
    /// A pooler with so few connections to the server that clients must share them.
    pub fn before(server: &PostgresServer) -> Self {
        let port = free_port();
        let listening = format!("listen_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir=");
        let directory = tempfile::Builder::new().prefix("pgb").tempdir().unwrap();
        Self::listening(directory, server, port, &listening)
    }

    /// The same, which is reached by its socket only: another process could take a port while it is down.
    pub fn local(server: &PostgresServer) -> Self {
        let directory = tempfile::Builder::new().prefix("pgb").tempdir().unwrap();
        let listening = format!(
            "listen_addr=\nlisten_port=6432\nunix_socket_dir={0}\nlogfile={0}/log",
            directory.path().display()
        );
        Self::listening(directory, server, 6432, &listening)
    }

    fn listening(directory: TempDir, server: &PostgresServer, port: u16, listening: &str) -> Self {
        let written = format!(
            "[databases]\n* = user=postgres host={} port={}\n[pgbouncer]\n{listening}\nauth_type=any\n\
            pool_mode=transaction\ndefault_pool_size=3\nserver_reset_query=\nmax_client_conn=200\n\
            server_login_retry=1\n",
            server.socket().display(),
            server.port()
        );
        let file = directory.path().join("pgbouncer.ini");
        fs::write(&file, written).unwrap();
        if let Some((user, group)) = other_user() {
            chown(directory.path(), Some(user), Some(group)).unwrap();
            chown(&file, Some(user), Some(group)).unwrap();
        }
        let child = Self::spawn(&directory);
        let made = Self {
            child,
            port,
            is_local: listening.starts_with("listen_addr=\n"),
            directory,
        };
        made.wait();
        made
    }

    fn spawn(directory: &TempDir) -> Child {
        let mut command = as_its_user(program("pgbouncer"));
        command.arg(directory.path().join("pgbouncer.ini"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    }

    fn wait(&self) {
        wait_until("PgBouncer answers", || match self.is_local {
            true => UnixStream::connect(self.socket()).is_ok(),
            false => TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
        });
    }

    /// What a local one logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory
            .path()
            .join(format!(".s.PGSQL.{}", self.port))
    }

    /// Ends it at once, and starts another one at its port.
    pub fn restart(&mut self) {
        self.end();
        let _ = fs::remove_file(self.socket());
        self.child = Self::spawn(&self.directory);
        self.wait();
    }

    /// Starts it again if it ended by itself, as a supervisor does. Returns whether it had.
    pub fn revive(&mut self) -> bool {
        let has_ended = self.child.try_wait().unwrap().is_some();
        if has_ended {
            self.restart();
        }
        has_ended
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.end();
    }
}
