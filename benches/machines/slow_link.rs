//! A way to a server that takes time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// What goes through to a port of 127.0.0.1, half a round trip later in each direction. Threads rather than tasks, because a
/// runtime's timers are not exact enough for a millisecond.
pub struct SlowLink {
    port: u16,
}

impl SlowLink {
    pub fn to(port: u16, round_trip: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                for (from, to) in [(&client, &server), (&server, &client)] {
                    to.set_nodelay(true).unwrap();
                    pass_on(
                        from.try_clone().unwrap(),
                        to.try_clone().unwrap(),
                        round_trip / 2,
                    );
                }
            }
        });
        Self { port: own }
    }

    pub const fn port(&self) -> u16 {
        self.port
    }
}

/// Bytes that arrive while others are on their way are not held up by them.
fn pass_on(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, arriving) = channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (at, bytes) in arriving {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let bytes = buffer.get(..length).unwrap_or_default().to_vec();
            if sender.send((Instant::now() + delay, bytes)).is_err() {
                return;
            }
        }
    });
}
