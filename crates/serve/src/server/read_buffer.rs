//! A stream that tells its connection how large a buffer hyper reads into. hyper enlarges it for a head that does not end,
//! and keeps it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::connection_place::ConnectionPlace;
use super::write_through::write_through;

pub(super) struct CountedReads<S> {
    pub stream: S,
    pub connection: Arc<ConnectionPlace>,
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedReads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.connection.reads_into(buffer.remaining());
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

write_through!(CountedReads);
