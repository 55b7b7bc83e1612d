//! A server that sends exactly the bytes that a test wrote, when the test says so: over TCP, or over TLS with an identity
//! of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_linger, set_tcp_cork};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How often a server that waits looks whether it is to end.
const TICK: Duration = Duration::from_millis(5);

/// One thing that a server does on a connection. Behind the last one it closes the connection.
#[derive(Clone)]
pub enum Act {
    /// Reads one request, its body too.
    Read,
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Reads one request and sends what this makes of it.
    Reply(Arc<Reply>),
    /// Reads and replies again and again, until the other side closes the connection.
    Serve(Arc<Reply>),
    /// Does nothing for so long.
    Wait(Duration),
    /// Closes the connection with a reset instead of an orderly end.
    Reset,
    /// Does nothing until the other side closes the connection.
    Hold,
    /// Passes on all bytes between the connection, which is no TLS, and this address.
    Tunnel(SocketAddr),
}

pub type Reply = dyn Fn(&RawRequest) -> Vec<u8> + Send + Sync;
type Script = dyn Fn(usize) -> Vec<Act> + Send + Sync;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct RawRequest {
    /// Its first line.
    pub line: String,
    /// Its header lines.
    pub headers: Vec<String>,
    /// When all of it had come.
    pub at: Instant,
}

/// A server on a free port of 127.0.0.1. It ends when it is dropped.
pub struct RawServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

struct Shared {
    script: Box<Script>,
    /// How long a connection waits before anything is read from it or sent to it.
    accept_delay: Duration,
    identity: Option<Arc<ServerConfig>>,
    requests: Mutex<Vec<RawRequest>>,
    /// A handle to each that is open.
    connections: Mutex<Vec<Option<TcpStream>>>,
    ending: AtomicBool,
}

impl RawServer {
    /// Starts one whose connections, counted from 0, each do what `script` says.
    pub fn start(script: impl Fn(usize) -> Vec<Act> + Send + Sync + 'static) -> Self {
        Self::accepting(Box::new(script), Duration::ZERO, None)
    }

    /// Starts one that answers one request with these bytes on each connection, and closes it.
    pub fn sending(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::start(move |_| vec![Act::Read, Act::Send(bytes.clone())])
    }

    /// Starts one that speaks TLS, and that begins each handshake only after `delay`.
    pub fn over_tls(
        identity: &Identity,
        delay: Duration,
        script: impl Fn(usize) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        Self::accepting(Box::new(script), delay, Some(Arc::clone(&identity.config)))
    }

    fn accepting(
        script: Box<Script>,
        accept_delay: Duration,
        identity: Option<Arc<ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared {
            script,
            accept_delay,
            identity,
            requests: Mutex::default(),
            connections: Mutex::default(),
            ending: AtomicBool::new(false),
        });
        let listening = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || listen(&listener, &shared)
        });
        Self {
            address,
            shared,
            listening: Some(listening),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`, without a slash at its end.
    pub fn url(&self) -> String {
        let scheme = if self.shared.identity.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.address)
    }

    /// Every request so far, in the order in which they came.
    pub fn requests(&self) -> Vec<RawRequest> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.shared.connections.lock().unwrap().len()
    }

    /// How many requests came at most within any `span`.
    pub fn most_within(&self, span: Duration) -> usize {
        let requests = self.requests();
        let within = |first: &RawRequest| {
            let times = requests.iter().map(|request| request.at);
            times
                .filter(|at| *at >= first.at && *at < first.at + span)
                .count()
        };
        requests.iter().map(within).max().unwrap_or(0)
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
        for socket in self.shared.connections.lock().unwrap().drain(..).flatten() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// For whom an identity speaks.
const NAMES: [&str; 2] = ["127.0.0.1", "api.example.test"];

/// A certificate for `NAMES` that signs itself, in a file that `SSL_CERT_FILE` can name.
pub struct Identity {
    config: Arc<ServerConfig>,
    directory: tempfile::TempDir,
}

impl Identity {
    pub fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned)).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), made.cert.pem()).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        Self {
            config: Arc::new(config),
            directory,
        }
    }

    pub fn file(&self) -> PathBuf {
        Path::new(self.directory.path()).join("ca.pem")
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for socket in listener.incoming() {
        if shared.ending.load(Ordering::SeqCst) {
            return;
        }
        let Ok(socket) = socket else { continue };
        let mut connections = shared.connections.lock().unwrap();
        let number = connections.len();
        connections.push(socket.try_clone().ok());
        let shared = Arc::clone(shared);
        std::thread::spawn(move || shared.converse(socket, number));
    }
}

/// Bytes in and out, over TCP or TLS.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Shared {
    fn converse(&self, socket: TcpStream, number: usize) {
        let _ = socket.set_nodelay(true);
        self.wait(self.accept_delay);
        let handle = socket.try_clone().expect("a second handle");
        let stream: Box<dyn Stream> = match &self.identity {
            Some(config) => {
                let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                Box::new(StreamOwned::new(connection, socket))
            }
            None => Box::new(socket),
        };
        let mut stream = BufReader::new(stream);
        let mut reset = false;
        let mut acts = (self.script)(number).into_iter().peekable();
        while let Some(act) = acts.next() {
            reset = matches!(act, Act::Reset);
            if acts.peek().is_none() && matches!(act, Act::Send(_) | Act::Reply(_)) {
                // The last bytes and the end leave together: no client finds the connection open in between.
                let _ = set_tcp_cork(&handle, true);
            }
            if let Act::Tunnel(to) = act {
                tunnel(&handle, to);
            } else if reset || self.perform(&act, &mut stream).is_none() {
                break;
            }
        }
        if reset {
            let _ = set_socket_linger(&handle, Some(Duration::ZERO));
        } else {
            let _ = handle.shutdown(Shutdown::Write);
        }
        // It is closed when its last handle is.
        if let Some(slot) = self.connections.lock().unwrap().get_mut(number) {
            *slot = None;
        }
    }

    /// Does one thing; `None` where the connection is over.
    fn perform(&self, act: &Act, stream: &mut BufReader<Box<dyn Stream>>) -> Option<()> {
        match act {
            Act::Read => self.read(stream).map(drop),
            Act::Send(bytes) => send(stream, bytes),
            Act::Reply(reply) => {
                let request = self.read(stream)?;
                send(stream, &reply(&request))
            }
            Act::Serve(reply) => loop {
                let request = self.read(stream)?;
                send(stream, &reply(&request))?;
            },
            Act::Wait(span) => {
                self.wait(*span);
                Some(())
            }
            Act::Reset | Act::Tunnel(_) => None,
            Act::Hold => {
                let _ = stream.read(&mut [0]);
                None
            }
        }
    }

    /// Waits, but not beyond the end.
    fn wait(&self, span: Duration) {
        let began = Instant::now();
        while began.elapsed() < span && !self.ending.load(Ordering::SeqCst) {
            std::thread::sleep(TICK.min(span));
        }
    }

    fn read(&self, stream: &mut BufReader<Box<dyn Stream>>) -> Option<RawRequest> {
        let line = read_line(stream)?;
        let mut headers = Vec::new();
        loop {
            match read_line(stream)? {
                header if header.is_empty() => break,
                header => headers.push(header),
            }
        }
        let length = headers.iter().find_map(|header| {
            let (name, value) = header.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        stream.read_exact(&mut vec![0; length.unwrap_or(0)]).ok()?;
        let mut requests = self.requests.lock().unwrap();
        let request = RawRequest {
            line,
            headers,
            at: Instant::now(),
        };
        requests.push(request.clone());
        Some(request)
    }
}

fn read_line(stream: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let read = stream.read_until(b'\n', &mut line).ok()?;
    (read > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned())
}

fn send(stream: &mut BufReader<Box<dyn Stream>>, bytes: &[u8]) -> Option<()> {
    stream.get_mut().write_all(bytes).ok()?;
    stream.get_mut().flush().ok()
}

fn tunnel(here: &TcpStream, to: SocketAddr) {
    let there = TcpStream::connect(to).expect("the other end");
    let (mut here_in, mut there_out) = (here.try_clone().unwrap(), there.try_clone().unwrap());
    let (mut there_in, mut here_out) = (there.try_clone().unwrap(), here.try_clone().unwrap());
    let back = std::thread::spawn(move || {
        let _ = std::io::copy(&mut there_in, &mut here_out);
        let _ = here_out.shutdown(Shutdown::Both);
    });
    let _ = std::io::copy(&mut here_in, &mut there_out);
    let _ = there.shutdown(Shutdown::Both);
    let _ = back.join();
}
