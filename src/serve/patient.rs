//! Clients that read slowly: a connection fails when its answer is not read in time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::unread::UnreadAnswers;

/// How long the other side may take to read [`LEAST`] bytes of an answer.
const UNREAD: Duration = Duration::from_secs(20);
/// The same while answers that nobody reads keep others waiting.
const UNREAD_OF_MANY: Duration = Duration::from_secs(1);
const LEAST: usize = 64 * 1024;

/// A connection that fails when the other side reads too slowly.
pub struct Patient {
    stream: TcpStream,
    unread: UnreadAnswers,
    /// The write that waits for the other side; `None`: none does.
    waiting: Option<Stalled>,
}

struct Stalled {
    since: Instant,
    /// The bytes that the other side has read since then.
    read: usize,
    /// When to look next whether it waits for too long.
    next_look: Pin<Box<Sleep>>,
}

impl Patient {
    pub fn new(stream: TcpStream, unread: UnreadAnswers) -> Self {
        Self {
            stream,
            unread,
            waiting: None,
        }
    }

    fn written(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            let read = *written.as_ref().unwrap_or(&0);
            self.waiting = self.waiting.take().and_then(|waiting| waiting.after(read));
            return Poll::Ready(written);
        }
        let waiting = self.waiting.get_or_insert_with(Stalled::begin);
        // Looked at every second, and not once at the end: the patience shrinks when other answers begin to wait.
        while waiting.next_look.as_mut().poll(context).is_ready() {
            let patience = match self.unread.are_many() {
                true => UNREAD_OF_MANY,
                false => UNREAD,
            };
            if waiting.since.elapsed() >= patience {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            waiting.next_look = Box::pin(sleep(UNREAD_OF_MANY));
        }
        Poll::Pending
    }
}

impl Stalled {
    fn begin() -> Self {
        Self {
            since: Instant::now(),
            read: 0,
            next_look: Box::pin(sleep(UNREAD_OF_MANY)),
        }
    }

    /// The same after the other side has read some bytes; `None` after enough of them.
    fn after(mut self, read: usize) -> Option<Self> {
        self.read += read;
        (self.read < LEAST).then_some(self)
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Comes behind the last byte of an answer.
        self.waiting = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
