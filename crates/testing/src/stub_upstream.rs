//! An upstream that answers as a test says, badly too, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// A stand-in on a free port of 127.0.0.1; it ends when it is dropped.
pub struct StubUpstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

type Script = dyn Fn(&StubRequest) -> StubAnswer + Send + Sync;

struct Shared {
    script: Box<Script>,
    requests: Mutex<Vec<StubRequest>>,
    sockets: Mutex<Vec<TcpStream>>,
    bytes_sent: AtomicU64,
    ending: AtomicBool,
    end: (Mutex<bool>, Condvar),
}

/// What was asked.
#[derive(Debug, Clone, Default)]
pub struct StubRequest {
    /// How many requests came before it.
    pub number: usize,
    pub method: String,
    /// As it was sent: percent-encoded, without the query.
    pub path: String,
    /// Decoded.
    pub query: Vec<(String, String)>,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl StubRequest {
    pub fn param(&self, name: &str) -> Option<&str> {
        find(&self.query, name)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the request's body is JSON")
    }
}

fn find<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
}

/// What is answered, and how it arrives.
#[derive(Debug, Clone)]
pub struct StubAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    delivery: Delivery,
    delay: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// As it should.
    Whole,
    /// The connection closes before a byte of the answer.
    Dropped,
    /// The connection closes after half of the body.
    Half,
    /// The body is sent again and again until the other side has had enough.
    Endless,
    /// The body alone goes out, as it is: status line and headers are up to the test.
    Raw,
}

impl StubAnswer {
    pub fn json(body: &Value) -> Self {
        Self::status(200)
            .header("content-type", "application/json; charset=utf-8")
            .body(body.to_string())
    }

    /// An answer without a body.
    pub const fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            delivery: Delivery::Whole,
            delay: Duration::ZERO,
        }
    }

    pub fn error(status: u16, body: &Value) -> Self {
        Self::json(body).with_status(status)
    }

    pub fn text(status: u16, body: &str) -> Self {
        Self::status(status).body(body)
    }

    pub fn redirect(status: u16, to: &str) -> Self {
        Self::status(status).header("location", to)
    }

    /// The connection is closed instead of an answer.
    pub fn dropped() -> Self {
        Self {
            delivery: Delivery::Dropped,
            ..Self::status(200)
        }
    }

    /// Bytes that need not be HTTP.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            delivery: Delivery::Raw,
            ..Self::status(200)
        }
        .body(bytes)
    }

    /// A success whose body is this, over and over, and never ends.
    pub fn endless(body: impl Into<Vec<u8>>) -> Self {
        Self {
            delivery: Delivery::Endless,
            ..Self::status(200)
        }
        .body(body)
    }

    /// A success whose gzip body never ends and grows a thousandfold when it is unpacked.
    pub fn gzip_bomb() -> Self {
        Self::endless(gzip(&vec![b' '; 1 << 24])).header("content-encoding", "gzip")
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: body.into(),
            ..self
        }
    }

    pub fn gzipped(self) -> Self {
        let body = gzip(&self.body);
        self.header("content-encoding", "gzip").body(body)
    }

    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// The connection closes after half of the body.
    pub fn half(self) -> Self {
        Self {
            delivery: Delivery::Half,
            ..self
        }
    }

    /// The answer begins only after this long.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} Stub\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match self.delivery {
            Delivery::Endless => head.push_str("connection: close\r\n"),
            _ => head.push_str(&format!("content-length: {}\r\n", self.body.len())),
        }
        head + "\r\n"
    }
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

impl StubUpstream {
    /// Starts one that answers each request by `script`.
    pub fn start(script: impl Fn(&StubRequest) -> StubAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared::new(Box::new(script)));
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

    /// Starts one that gives these answers in order, and the last one from then on.
    pub fn answering(answers: impl IntoIterator<Item = StubAnswer>) -> Self {
        let answers: Vec<StubAnswer> = answers.into_iter().collect();
        Self::start(move |request| {
            let answer = answers.get(request.number).or(answers.last());
            answer.cloned().unwrap_or(StubAnswer::status(500))
        })
    }

    /// `http://127.0.0.1:PORT`, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far, in the order in which they came.
    pub fn requests(&self) -> Vec<StubRequest> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.shared.sockets.lock().unwrap().len()
    }

    /// How many bytes of answers went out.
    pub fn bytes_sent(&self) -> u64 {
        self.shared.bytes_sent.load(Ordering::SeqCst)
    }
}

impl Drop for StubUpstream {
    fn drop(&mut self) {
        self.shared.finish();
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
        for socket in self.shared.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn new(script: Box<Script>) -> Self {
        Self {
            script,
            requests: Mutex::default(),
            sockets: Mutex::default(),
            bytes_sent: AtomicU64::new(0),
            ending: AtomicBool::new(false),
            end: (Mutex::new(false), Condvar::new()),
        }
    }

    fn finish(&self) {
        self.ending.store(true, Ordering::SeqCst);
        *self.end.0.lock().unwrap() = true;
        self.end.1.notify_all();
    }

    /// Waits, but not beyond the end.
    fn pause(&self, span: Duration) {
        let ended = self.end.0.lock().unwrap();
        let _ = self.end.1.wait_timeout_while(ended, span, |ended| !*ended);
    }

    fn remember(&self, mut request: StubRequest) -> StubRequest {
        let mut requests = self.requests.lock().unwrap();
        request.number = requests.len();
        requests.push(request.clone());
        request
    }

    fn send(&self, socket: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
        socket.write_all(bytes)?;
        self.bytes_sent
            .fetch_add(bytes.len() as u64, Ordering::SeqCst);
        Ok(())
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for socket in listener.incoming() {
        if shared.ending.load(Ordering::SeqCst) {
            return;
        }
        let Ok(socket) = socket else { continue };
        shared
            .sockets
            .lock()
            .unwrap()
            .push(socket.try_clone().expect("a second handle"));
        let shared = Arc::clone(shared);
        std::thread::spawn(move || serve(socket, &shared));
    }
}

/// Serves one connection until either side closes it.
fn serve(mut socket: TcpStream, shared: &Shared) {
    let Ok(reading) = socket.try_clone() else {
        return;
    };
    let mut reading = BufReader::new(reading);
    while let Some(request) = read_request(&mut reading) {
        let answer = (shared.script)(&shared.remember(request));
        shared.pause(answer.delay);
        if !matches!(deliver(&mut socket, &answer, shared), Ok(true)) {
            break;
        }
    }
    let _ = socket.shutdown(Shutdown::Both);
}

/// Sends an answer; whether the connection stays open.
fn deliver(socket: &mut TcpStream, answer: &StubAnswer, shared: &Shared) -> std::io::Result<bool> {
    match answer.delivery {
        Delivery::Whole => {
            shared.send(socket, &[answer.head().as_bytes(), &answer.body].concat())?;
            return Ok(true);
        }
        Delivery::Half => {
            shared.send(socket, answer.head().as_bytes())?;
            shared.send(socket, &answer.body[..answer.body.len() / 2])?;
        }
        Delivery::Endless => {
            shared.send(socket, answer.head().as_bytes())?;
            while !shared.ending.load(Ordering::SeqCst) {
                shared.send(socket, &answer.body)?;
            }
        }
        Delivery::Raw => shared.send(socket, &answer.body)?,
        Delivery::Dropped => (),
    }
    Ok(false)
}

fn read_request(reading: &mut BufReader<TcpStream>) -> Option<StubRequest> {
    let first = read_line(reading)?;
    let mut words = first.split_ascii_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers = read_headers(reading)?;
    let length = find(&headers, "content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reading.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    Some(StubRequest {
        number: 0,
        method,
        path: path.to_owned(),
        query,
        headers,
        body,
    })
}

fn read_headers(reading: &mut BufReader<TcpStream>) -> Option<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = read_line(reading)?;
        if line.is_empty() {
            return Some(headers);
        }
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn read_line(reading: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = Vec::new();
    let read = reading.read_until(b'\n', &mut line).ok()?;
    (read > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned())
}
