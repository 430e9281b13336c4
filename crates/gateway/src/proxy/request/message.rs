//! Bytes that a socket of a client holds: a message that comes in pieces, and what the next one continues. Within the bounds of a
//! request's body. Not for frames.

use bytes::Bytes;

use crate::proxy::body::{BodyRoom, FIRST_ROOM, PAUSE_MAX, time_for};
use crate::proxy::door::caller::{Client, authenticate};
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::state::gateway::Gateway;
use crate::proxy::state::places::RequestPlace;
use photofinish_base::clock::Instant;

/// Counted in memory, and from 64 KiB on in its caller's share of it. While it is still coming, a large one has a place among the
/// bodies that do.
pub struct SocketMessage {
    bytes: Vec<u8>,
    room: BodyRoom,
    /// None: it is small.
    place: Option<RequestPlace>,
    began: Instant,
    heard_at: Instant,
}

impl SocketMessage {
    pub fn new(gateway: &Gateway) -> SocketMessage {
        let now = Instant::now();
        SocketMessage {
            bytes: Vec::new(),
            room: BodyRoom::of_a_small(gateway.memory()),
            place: None,
            began: now,
            heard_at: now,
        }
    }

    /// A further piece. `announced`: bytes of the message that are known to come, this piece included.
    ///
    /// # Errors
    /// 413 above `body_max`, 503 without memory or with too much of its caller's, 401 if the token does not count any more.
    pub fn push(
        &mut self,
        (gateway, client): (&Gateway, &Client),
        piece: &[u8],
        announced: usize,
    ) -> Result<(), Rejection> {
        let (length, live) = (self.bytes.len() + piece.len(), gateway.live());
        let all = self.with(announced.max(piece.len()), gateway)?;
        self.heard_at = Instant::now();
        // Room grows ahead of the bytes, by doubling at most.
        if 2 * length > FIRST_ROOM && self.place.is_none() {
            let user = authenticate(gateway, &live, client)?;
            let place = gateway.enter_race(&live, user.as_deref(), client.address).map_err(Rejection::overloaded)?;
            self.room.count_for(&place);
            self.place.insert(place).arrive().map_err(Rejection::overloaded)?;
        }
        self.room.make(&mut self.bytes, length, if all > length { all } else { 0 })?;
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Its length with `more` bytes added.
    ///
    /// # Errors
    /// 413 above `body_max`.
    pub fn with(&self, more: usize, gateway: &Gateway) -> Result<usize, Rejection> {
        let (all, max) = (self.bytes.len().saturating_add(more), gateway.live().config.server.body_max);
        if all > max { Err(Rejection::too_large(max)) } else { Ok(all) }
    }

    /// When it is too slow, if nothing comes.
    pub fn due(&self) -> Instant {
        (self.heard_at + PAUSE_MAX).min(self.began + time_for(self.bytes.len()))
    }

    /// All of it. Its memory is held until the bytes are dropped.
    pub fn whole(mut self) -> Bytes {
        if self.bytes.len() < self.bytes.capacity() / 2 {
            self.bytes.shrink_to_fit();
        }
        self.room.hold(self.bytes)
    }

    /// These bytes, one after the other.
    ///
    /// # Errors
    /// As for [`SocketMessage::push`].
    pub fn of(by: (&Gateway, &Client), pieces: &[&[u8]]) -> Result<Bytes, Rejection> {
        let mut message = SocketMessage::new(by.0);
        let mut left = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        for piece in pieces {
            message.push(by, piece, left)?;
            left -= piece.len();
        }
        Ok(message.whole())
    }
}
