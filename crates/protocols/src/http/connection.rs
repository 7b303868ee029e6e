//! A connection whose client must read: one that reads nothing for too long is closed, so that it holds no resources.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::limits::WRITE_STALL;

/// A connection that fails once nothing could be written for [`WRITE_STALL`].
pub(super) struct GuardedConnection<C> {
    connection: C,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<C> GuardedConnection<C> {
    pub(super) fn new(connection: C) -> Self {
        Self { connection, stalled: None }
    }

    /// Turns a write that waits for too long into an error.
    fn unless_stalled<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_STALL)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for GuardedConnection<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for GuardedConnection<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection).poll_write(context, bytes);
        self.unless_stalled(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.connection).poll_flush(context);
        self.unless_stalled(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection).poll_write_vectored(context, pieces);
        self.unless_stalled(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_closed_and_a_slow_one_is_not() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut guarded = GuardedConnection::new(near);
        guarded.write_all(b"12345678").await.expect("it fits");
        let reading = async {
            // The virtual clock moves as far as it may before the first piece is read.
            tokio::time::advance(WRITE_STALL / 2).await;
            let mut piece = [0; 8];
            far.read_exact(&mut piece).await.expect("read");
        };
        let (written, ()) = tokio::join!(guarded.write_all(b"abcdefgh"), reading);
        written.expect("the client reads slowly");
        let error = guarded.write_all(b"more").await.expect_err("the client reads nothing more");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(far);
    }
}
