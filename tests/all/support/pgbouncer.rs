//! PgBouncer in transaction mode, before a server.

use std::fs;
use std::os::unix::fs::chown;
use std::process::{Child, Stdio};

use tempfile::TempDir;

use super::postgres::{PostgresServer, as_its_user, other_user, program};
use super::redis_server::{free_port, wait_until};

pub(crate) struct PgBouncer {
    child: Child,
    port: u16,
    directory: TempDir,
}

impl PgBouncer {
    /// A pooler with so few connections to the server that clients must share them.
    pub(crate) fn before(server: &PostgresServer) -> Self {
        let directory = tempfile::Builder::new().prefix("pgb").tempdir().unwrap();
        let port = free_port();
        let written = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr=127.0.0.1\n\
            listen_port={port}\nauth_type=any\npool_mode=transaction\ndefault_pool_size=3\n\
            unix_socket_dir=\nserver_reset_query=\nmax_client_conn=200\n",
            server.port()
        );
        let written = written.replace("* = host=127.0.0.1", "* = user=postgres host=127.0.0.1");
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
        wait_until("PgBouncer answers", || {
            std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    /// Ends it at once, and starts another one at its port.
    pub(crate) fn restart(&mut self) {
        self.end();
        self.child = Self::spawn(&self.directory);
        self.wait();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.end();
    }
}
