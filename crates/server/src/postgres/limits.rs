//! A stream that refuses messages above the maximum size, and clients that do not read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The time without progress after which a write fails.
const STALLED: Duration = Duration::from_secs(120);

/// The maximum size of a message before authentication, in bytes.
const UNAUTHENTICATED: usize = 16 << 10;

/// The begin of a query in place of the message FunctionCall, which pgwire does not read.
pub(super) const FUNCTION_CALL: char = '\u{1}';

/// The types of the messages FunctionCall and Query.
const CALL: u8 = b'F';
const QUERY: u8 = b'Q';

/// A stream of messages. The first message has no type byte; the others have one.
pub(super) struct Limited<S> {
    stream: S,
    /// Bytes that were read before the stream was created.
    prefix: Vec<u8>,
    limit: usize,
    frames: Frames,
    stalled: Option<Pin<Box<Sleep>>>,
}

/// The position in a sequence of messages.
#[derive(Debug)]
struct Frames {
    is_first: bool,
    /// The bytes of a header that is incomplete.
    header: Vec<u8>,
    /// The bytes of the message that are still to be read.
    body: usize,
    /// Whether the message is a FunctionCall.
    is_call: bool,
}

impl Frames {
    /// Reads the next bytes of the sequence. A FunctionCall becomes a Query that is refused.
    ///
    /// # Errors
    /// The size of a message that exceeds `limit`.
    fn advance(&mut self, mut bytes: &mut [u8], limit: usize) -> Result<(), usize> {
        while !bytes.is_empty() {
            if self.body > 0 {
                let read = self.body.min(bytes.len());
                let (part, rest) = bytes.split_at_mut(read);
                self.body -= read;
                if self.is_call {
                    part.fill(FUNCTION_CALL as u8);
                    if let (0, Some(last)) = (self.body, part.last_mut()) {
                        *last = 0;
                    }
                }
                bytes = rest;
                continue;
            }
            let length = if self.is_first { 4 } else { 5 };
            let missing = length - self.header.len();
            let read = missing.min(bytes.len());
            if self.header.is_empty() {
                self.is_call = !self.is_first && bytes[0] == CALL;
                if self.is_call {
                    bytes[0] = QUERY;
                }
            }
            let (part, rest) = bytes.split_at_mut(read);
            self.header.extend_from_slice(part);
            bytes = rest;
            if let Some(size) = (self.header.len() == length)
                .then(|| self.header.last_chunk::<4>())
                .flatten()
            {
                // A length below 4 is wrong; the decoder of messages refuses it.
                let size = u32::from_be_bytes(*size) as usize;
                if size > limit {
                    return Err(size);
                }
                self.body = size.saturating_sub(4);
                self.header.clear();
                self.is_first = false;
            }
        }
        Ok(())
    }
}

impl<S> Limited<S> {
    /// A stream that begins with `prefix`.
    pub(super) fn new(stream: S, prefix: Vec<u8>) -> Self {
        Self {
            stream,
            prefix,
            limit: UNAUTHENTICATED,
            frames: Frames {
                is_first: true,
                header: Vec::new(),
                body: 0,
                is_call: false,
            },
            stalled: None,
        }
    }

    /// Sets the maximum size of a message.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.prefix.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        } else {
            let read = self.prefix.len().min(buffer.remaining());
            buffer.put_slice(&self.prefix[..read]);
            self.prefix.drain(..read);
        }
        let limit = self.limit;
        let new = &mut buffer.filled_mut()[before..];
        Poll::Ready(self.frames.advance(new, limit).map_err(|size| {
            io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("a message of {size} bytes exceeds the maximum of {limit} bytes (limits.message)"),
            )
        }))
    }
}

impl<S: AsyncWrite + Unpin> Limited<S> {
    /// Fails if writes have made no progress for a long time.
    fn progressed<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALLED)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read",
        )))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.progressed(polled, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.progressed(polled, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Frames {
        Frames {
            is_first: true,
            header: Vec::new(),
            body: 0,
            is_call: false,
        }
    }

    #[test]
    fn messages_are_followed_byte_by_byte() {
        let mut sequence = vec![0, 0, 0, 6, 1, 2];
        sequence.extend([b'Q', 0, 0, 0, 7, b'a', b'b', 0]);
        sequence.extend([b'S', 0, 0, 0, 4]);
        for step in 1..=sequence.len() {
            let mut frames = frames();
            for part in sequence.clone().chunks_mut(step) {
                assert_eq!(frames.advance(part, 7), Ok(()), "{step}");
            }
            assert!(frames.header.is_empty() && frames.body == 0 && !frames.is_first);
        }
    }

    #[test]
    fn function_calls_become_queries() {
        let sequence = [0, 0, 0, 4, b'F', 0, 0, 0, 8, 7, 8, 9, 10, b'S', 0, 0, 0, 4];
        let expected = [0, 0, 0, 4, b'Q', 0, 0, 0, 8, 1, 1, 1, 0, b'S', 0, 0, 0, 4];
        for step in 1..=sequence.len() {
            let (mut frames, mut read) = (frames(), sequence);
            for part in read.chunks_mut(step) {
                assert_eq!(frames.advance(part, 100), Ok(()));
            }
            assert_eq!(read, expected, "{step}");
        }
    }

    #[test]
    fn large_messages_are_refused_by_their_header() {
        let mut sequence = vec![0, 0, 0, 4];
        sequence.extend([b'Q', 0x7f, 0xff, 0xff, 0xff]);
        assert_eq!(frames().advance(&mut sequence, 1 << 20), Err(0x7fff_ffff));
        assert_eq!(frames().advance(&mut [0xff; 4], 1 << 20), Err(0xffff_ffff));
    }
}
