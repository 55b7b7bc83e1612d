//! A server that answers everything with the same bytes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Something that answers everything with the same bytes.
pub struct Parrot {
    pub port: u16,
    says: Arc<Mutex<Vec<u8>>>,
}

impl Parrot {
    pub fn say(&self, bytes: Vec<u8>) {
        *self.says.lock().unwrap() = bytes;
    }

    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let says = Arc::new(Mutex::new(Vec::new()));
        let saying = Arc::clone(&says);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (mut socket, saying) = (socket.unwrap(), Arc::clone(&saying));
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while socket.read(&mut buffer).is_ok_and(|read| read > 0) {
                        let bytes = saying.lock().unwrap().clone();
                        if socket.write_all(&bytes).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Self { port, says }
    }
}
