//! A TCP connection that knows whether any byte of a request was written to it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use ingest_base::clock::Deadline;

/// Why a request was not written. No byte of it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// Its deadline had passed.
    TooLate,
    /// The server had closed the connection, or had sent bytes without a request.
    Stale,
}

/// Makes sure that the request of a connection is written before its deadline or not at all.
#[derive(Debug, Default)]
pub struct Watch(Mutex<WriteState>);

#[derive(Debug, Default, Clone, Copy)]
enum WriteState {
    /// There is no request: what is written belongs to the connection itself, such as a TLS handshake.
    #[default]
    Idle,
    /// A request may be written until then.
    Armed(Deadline),
    /// The request must not be written any more.
    Refused(Unsent),
    /// A part of the request was written.
    Written,
}

impl Watch {
    /// Announces that the next bytes are those of a request, which must be written before the deadline.
    pub fn arm(&self, deadline: Deadline) {
        *self.0.lock() = WriteState::Armed(deadline);
    }

    /// Ends the request. `Some` if no byte of it was written, and none will be.
    pub fn disarm(&self) -> Option<Unsent> {
        let mut state = self.0.lock();
        match *state {
            WriteState::Armed(_) => {
                *state = WriteState::Refused(Unsent::Stale);
                Some(Unsent::Stale)
            }
            WriteState::Refused(why) => Some(why),
            WriteState::Idle | WriteState::Written => None,
        }
    }
}

/// A watched connection.
#[derive(Debug)]
pub struct Line {
    tcp: TcpStream,
    watch: Arc<Watch>,
    /// Whether the connection uses TLS: then bytes that wait to be read need not be a response.
    is_sealed: bool,
}

impl Line {
    pub fn new(tcp: TcpStream, is_sealed: bool) -> Self {
        Self {
            tcp,
            watch: Arc::default(),
            is_sealed,
        }
    }

    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    /// Writes if that is still allowed. The state is locked meanwhile, so that `disarm` knows what was written.
    fn write(
        &mut self,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.watch.0.lock();
        if let WriteState::Armed(deadline) = *state
            && let Some(why) = unsent(&self.tcp, self.is_sealed, deadline)
        {
            *state = WriteState::Refused(why);
        }
        if let WriteState::Refused(why) = *state {
            return Poll::Ready(Err(io::Error::other(match why {
                Unsent::TooLate => "its deadline had passed",
                Unsent::Stale => "the server had closed the connection",
            })));
        }
        let written = write(Pin::new(&mut self.tcp));
        // A write that failed counts as written: nobody knows how much of it left, and what is in doubt was counted.
        let nothing = matches!(written, Poll::Pending | Poll::Ready(Ok(0)));
        if matches!(*state, WriteState::Armed(_)) && !nothing {
            *state = WriteState::Written;
        }
        written
    }
}

/// Why a request must not be written now. This reads the socket itself, since an end or stray bytes may not have been
/// noticed yet: bytes that followed one response must never be read as the next one.
fn unsent(tcp: &TcpStream, is_sealed: bool, deadline: Deadline) -> Option<Unsent> {
    let closed_or_garbage = match recv(tcp, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((0, _)) => true,
        Ok(_) => !is_sealed,
        // Nothing to read is what a connection between two responses has.
        Err(error) => error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR,
    };
    if closed_or_garbage {
        Some(Unsent::Stale)
    } else {
        deadline.is_past().then_some(Unsent::TooLate)
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(context, buffer)
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(|tcp| tcp.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|tcp| tcp.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}
