//! Reads a request's body within its bounds. Not for parsing.

use std::error::Error;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::poll;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::state::blocking::{INLINE_MAX, StillWanted, translation_bytes};
use crate::proxy::state::gateway::Gateway;
use crate::proxy::state::places::{BodyShare, RequestPlace};
use photofinish_base::clock::Instant;
use photofinish_base::coding::{ContentCoding, STEP_MAX, Step};
use photofinish_base::memory::{Lease, Memory, MemoryFull};
use photofinish_translation::ApiRequest;
use photofinish_translation::request::as_chat;
use photofinish_wire::Surface;

/// The longest pause of a request's body; after this time it must come with 2 KiB/s on average.
pub const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The minimum average rate of a body, bytes per second, once [`PAUSE_MAX`] is over. A poor mobile network is several
/// times faster; a client that sends a byte now and then is slower.
pub const RATE_MIN: u64 = 2 * 1024;
/// How long an unwanted body is read, so that the client sees the answer.
const DISCARD_FOR: Duration = Duration::from_secs(2);
/// The largest announced length that is allocated at once. Beyond it memory grows with the body, because an
/// announcement costs the client nothing.
pub(super) const FIRST_ROOM: usize = 64 << 10;
/// Room for announced bytes grows by this factor: a client gets room for at most this many times what it sent. Growing copies what is
/// there, which is a fifteenth of the body in all.
const ANNOUNCED_GROWTH: usize = 16;

/// Limits a body to `max` bytes; `read` turns an excess into a 413.
pub fn limited(body: Body, max: usize) -> Body {
    if body.is_end_stream() { body } else { Body::new(Limited::new(body, max)) }
}

pub fn is_over_limit(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The whole body, [`limited`] to `max` bytes. It is leased from `memory` until the bytes are dropped. While it is still
/// coming, the request has a place among those, and none in the race.
///
/// # Errors
/// 413 above `max` bytes, 503 without memory or such a place, 408 if it stops or is too slow, 400 if it breaks off.
async fn read_raw(
    headers: &HeaderMap,
    mut body: Body,
    max: usize,
    memory: &Memory,
    place: &mut RequestPlace,
) -> Result<Bytes, Rejection> {
    let announced: usize = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(0);
    let refused = if announced > max {
        Some(Rejection::too_large(max))
    } else if !memory.has_room(announced) {
        Some(Rejection::no_memory(announced, memory.max()))
    } else {
        None
    };
    if let Some(rejection) = refused {
        if is_awaited(headers, &body) {
            discard(body, max).await;
        }
        return Err(rejection);
    }
    let (mut bytes, mut room) = (Vec::new(), BodyRoom::new(memory, place));
    let began = Instant::now();
    loop {
        let (pause_ends, due) = (Instant::now() + PAUSE_MAX, began + time_for(bytes.len()));
        let arrived = {
            let mut arriving = std::pin::pin!(tokio::time::timeout_at(pause_ends.min(due), body.frame()));
            match poll!(arriving.as_mut()) {
                Poll::Ready(arrived) => Ok(arrived),
                Poll::Pending => match place.arrive() {
                    Ok(()) => Ok(arriving.await),
                    Err(shed) => Err(shed),
                },
            }
        };
        let arrived = match arrived {
            Ok(arrived) => arrived,
            Err(shed) => {
                drop((bytes, room));
                if let Some(_place) = place.enter_discard() {
                    discard(body, max).await;
                }
                return Err(Rejection::overloaded(shed));
            }
        };
        match arrived {
            Err(_) if due < pause_ends => return Err(Rejection::body_slow(RATE_MIN)),
            Err(_) => return Err(Rejection::body_stopped(PAUSE_MAX)),
            Ok(None) => return Ok(room.hold(bytes)),
            Ok(Some(Err(error))) if is_over_limit(&error) => {
                drop((bytes, room));
                discard(body, max).await;
                return Err(Rejection::too_large(max));
            }
            Ok(Some(Err(_))) => return Err(Rejection::body_broke()),
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                let length = bytes.len() + data.len();
                if let Err(rejection) = room.make(&mut bytes, length, announced) {
                    drop((bytes, room, data));
                    discard(body, max).await;
                    return Err(rejection);
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
}

/// The deadline for the next bytes, after this many bytes.
pub fn time_for(bytes: usize) -> Duration {
    PAUSE_MAX + Duration::from_millis(u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(1_000) / RATE_MIN)
}

/// The memory of one body: a part of all memory, and of its caller's share of it.
pub(crate) struct BodyRoom {
    lease: Lease,
    /// None: it stays small.
    share: Option<BodyShare>,
    /// All memory there is.
    all: usize,
}

impl BodyRoom {
    pub(crate) fn new(memory: &Memory, place: &RequestPlace) -> BodyRoom {
        BodyRoom { share: Some(place.body_share()), ..BodyRoom::of_a_small(memory) }
    }

    /// Of one that is no larger than what is counted in no share.
    pub(super) fn of_a_small(memory: &Memory) -> BodyRoom {
        BodyRoom { lease: memory.lease(), share: None, all: memory.max() }
    }

    /// From now on it counts in the share of this request's caller.
    pub(super) fn count_for(&mut self, place: &RequestPlace) {
        self.share = Some(place.body_share());
    }

    /// Leases and allocates room for `length` bytes: many times the present capacity, at most the announced length; twice the
    /// capacity where none is announced.
    pub(super) fn make(&mut self, bytes: &mut Vec<u8>, length: usize, announced: usize) -> Result<(), Rejection> {
        if length > bytes.capacity() {
            let ahead = match announced {
                0 => bytes.capacity() * 2,
                _ => (bytes.capacity() * ANNOUNCED_GROWTH).max(FIRST_ROOM).min(announced),
            };
            let capacity = length.max(ahead);
            self.grow(bytes, length, capacity)?;
        }
        Ok(())
    }

    /// Leases and allocates this capacity, of which `length` bytes are needed.
    pub(crate) fn grow(&mut self, bytes: &mut Vec<u8>, length: usize, capacity: usize) -> Result<(), Rejection> {
        self.lease.cover(capacity).map_err(|MemoryFull| Rejection::no_memory(length, self.all))?;
        if let Some(share) = self.share.as_mut().filter(|_| capacity > FIRST_ROOM) {
            share.cover(capacity, self.all).map_err(Rejection::overloaded)?;
        }
        bytes.reserve_exact(capacity - bytes.len());
        Ok(())
    }

    /// Ties it to the bytes of the whole body.
    pub(crate) fn hold(mut self, bytes: Vec<u8>) -> Bytes {
        self.lease.settle(bytes.capacity());
        let held = self.lease.hold(bytes);
        match self.share.filter(|share| !share.is_empty()) {
            Some(share) => Bytes::from_owner(LargeBody { held, _share: share }),
            None => held,
        }
    }
}

struct LargeBody {
    held: Bytes,
    _share: BodyShare,
}

impl AsRef<[u8]> for LargeBody {
    fn as_ref(&self) -> &[u8] {
        &self.held
    }
}

/// A chat request that came in the form of the Responses API.
///
/// # Errors
/// 503 or 413 without memory for another body, 400 for what is wrong with it.
pub fn in_chat_form(body: &[u8], strict: bool, memory: &Memory) -> Result<ApiRequest, Rejection> {
    let mut lease = memory.lease();
    let needed = translation_bytes(body);
    lease.cover(needed).map_err(|MemoryFull| Rejection::no_memory(needed, memory.max()))?;
    let (chat, losses) = as_chat(body).map_err(|invalid| Rejection::invalid(&invalid))?;
    lease.settle(chat.capacity());
    let mut request = ApiRequest::parse_call(Surface::Chat, lease.hold(chat), None, strict)?;
    request.losses = losses;
    Ok(request)
}

/// Whether the client is sending a body. With `Expect: 100-continue` it has not started.
pub fn is_awaited(headers: &HeaderMap, body: &Body) -> bool {
    !body.is_end_stream() && !headers.contains_key(http::header::EXPECT)
}

/// Reads at most `max` further bytes and drops them. The body's own limit drops the data beyond it.
pub async fn discard(mut body: Body, max: usize) {
    let read = async {
        let mut left = max;
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len)),
                Err(error) if is_over_limit(&error) => {}
                Err(_) => return,
            }
            if left == 0 {
                return;
            }
        }
    };
    // A timeout is no error here.
    let _ = tokio::time::timeout(DISCARD_FOR, read).await;
}

/// The whole body, decoded. `max` bounds it before and after.
///
/// # Errors
/// As `read_raw`; 415 for a coding that is not supported, 400 for a body that cannot be decoded.
pub async fn read(
    gateway: &Gateway,
    headers: &HeaderMap,
    body: Body,
    max: usize,
    place: &mut RequestPlace,
) -> Result<Bytes, Rejection> {
    if !headers.contains_key(CONTENT_ENCODING) {
        return read_raw(headers, body, max, gateway.memory(), place).await;
    }
    // Boxed, so that the future of a usual request stays small.
    Box::pin(read_decoded(gateway, headers, body, max, place)).await
}

async fn read_decoded(
    gateway: &Gateway,
    headers: &HeaderMap,
    body: Body,
    max: usize,
    place: &mut RequestPlace,
) -> Result<Bytes, Rejection> {
    let values = headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::as_bytes);
    let coding = match ContentCoding::of(values) {
        Ok(coding) => coding,
        Err(unknown) => {
            if is_awaited(headers, &body) {
                discard(body, max).await;
            }
            return Err(Rejection::unknown_coding(&unknown));
        }
    };
    let coded = read_raw(headers, body, max, gateway.memory(), place).await?;
    let Some(coding) = coding.filter(|_| !coded.is_empty()) else { return Ok(coded) };
    // How much it will be is not known. Little is decoded in place; more begins anew on another thread.
    if coded.len() <= INLINE_MAX {
        match decoded(
            coding,
            &coded,
            INLINE_MAX.min(max),
            BodyRoom::new(gateway.memory(), place),
            &StillWanted::anyhow(),
        ) {
            Err(DecodeFailure::TooLong) if max > INLINE_MAX => {}
            done => return done.map_err(|failure| failure.rejection(max)),
        }
    }
    let until = Instant::now() + gateway.live().config.race.timeouts.total;
    let (length, room) = (coded.len().max(INLINE_MAX + 1), BodyRoom::new(gateway.memory(), place));
    let decode = move |wanted: &StillWanted| decoded(coding, &coded, max, room, wanted);
    gateway.heavy().run(length, until, decode).await?.map_err(|failure| failure.rejection(max))
}

enum DecodeFailure {
    TooLong,
    Refused(Rejection),
}

impl DecodeFailure {
    fn rejection(self, max: usize) -> Rejection {
        match self {
            DecodeFailure::TooLong => Rejection::too_large(max),
            DecodeFailure::Refused(rejection) => rejection,
        }
    }
}

fn decoded(
    coding: ContentCoding,
    coded: &[u8],
    max: usize,
    mut room: BodyRoom,
    wanted: &StillWanted,
) -> Result<Bytes, DecodeFailure> {
    let (mut decoder, mut out) = (coding.decoder(), Vec::new());
    let mut left = coded;
    loop {
        wanted.check().map_err(DecodeFailure::Refused)?;
        make_room(&mut out, &mut room, max).map_err(DecodeFailure::Refused)?;
        let step = decoder.step(&mut left, &mut out);
        if out.len() > max {
            return Err(DecodeFailure::TooLong);
        }
        match step {
            Ok(Step::More) => {}
            Ok(Step::NeedsInput) => break,
            Err(why) => return Err(DecodeFailure::Refused(Rejection::undecodable(coding, why))),
        }
    }
    decoder.finish().map_err(|why| DecodeFailure::Refused(Rejection::undecodable(coding, why)))?;
    if out.len() < out.capacity() / 2 {
        out.shrink_to_fit();
    }
    Ok(room.hold(out))
}

/// Leases and allocates room for a further step: twice the present capacity, and never more than a step beyond `max`.
fn make_room(out: &mut Vec<u8>, room: &mut BodyRoom, max: usize) -> Result<(), Rejection> {
    let needed = out.len() + STEP_MAX;
    if needed > out.capacity() {
        let capacity = needed.max((out.capacity() * 2).min(max + STEP_MAX));
        room.grow(out, needed, capacity)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use futures_util::{StreamExt, stream};
    use http::StatusCode;

    use super::*;
    use crate::proxy::refusals::shed::ShedReason;
    use crate::proxy::state::places::RequestPlaces;
    use crate::proxy::state::shares::{ShareHolder, ShareLimits};

    /// This many chunks of this many bytes, each after a pause.
    fn body(chunks: usize, bytes: usize, pause: Duration) -> Body {
        let chunk = Bytes::from(vec![b'x'; bytes]);
        Body::from_stream(stream::iter(0..chunks).then(move |_| {
            let chunk = chunk.clone();
            async move {
                tokio::time::sleep(pause).await;
                Ok::<_, Infallible>(chunk)
            }
        }))
    }

    /// Of a gateway with one user and this many places.
    fn place(all: usize) -> RequestPlace {
        let limits = ShareLimits { all, users: 1 };
        Arc::<RequestPlaces>::default().enter(ShareHolder::User(1), limits).unwrap()
    }

    /// The length or the status, and the seconds it took.
    async fn read_in(body: Body) -> (Result<usize, StatusCode>, u64) {
        let began = Instant::now();
        let memory = Memory::new(64 << 20);
        let read = read_raw(&HeaderMap::new(), body, 32 << 20, &memory, &mut place(1)).await;
        (read.map(|bytes| bytes.len()).map_err(|rejection| rejection.status()), began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_must_reach_a_rate_over_its_whole_length() {
        let (second, late) = (Duration::from_secs(1), Err(StatusCode::REQUEST_TIMEOUT));
        for (chunks, bytes, pause, expected) in [
            // An occasional byte keeps the connection no longer than silence does.
            (1_000, 1, 29 * second, (late, 30)),
            (1_000, 1, 31 * second, (late, 30)),
            (1_000_000, 1, second / 10, (late, 30)),
            // Half the minimum rate is detected after the grace time, and so is a stall after a fast beginning.
            (1_000, 1_024, second, (late, 59)),
            (2, 1 << 20, 31 * second, (late, 30)),
            // Slow but steady: 1 MB in six minutes, and little after a long pause.
            (350, 3_000, second, (Ok(1_050_000), 350)),
            (1, 10, 29 * second, (Ok(10), 29)),
            (3, 60_000, 29 * second, (Ok(180_000), 87)),
        ] {
            assert_eq!(read_in(body(chunks, bytes, pause)).await, expected, "{chunks} × {bytes} B every {pause:?}");
        }
    }

    fn announcing(length: usize) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_LENGTH, length.into())])
    }

    #[tokio::test(start_paused = true)]
    async fn an_announced_length_takes_nothing_until_it_comes() {
        let memory = Memory::new(64 << 20);
        let (bytes, announced) = (&mut Vec::new(), 30 << 20);
        let mut room = BodyRoom::new(&memory, &place(1));
        room.make(bytes, 10, announced).unwrap();
        assert_eq!((bytes.capacity(), memory.used()), (FIRST_ROOM, FIRST_ROOM));
        bytes.resize(FIRST_ROOM, 0);
        room.make(bytes, FIRST_ROOM + 1, announced).unwrap();
        let grown = ANNOUNCED_GROWTH * FIRST_ROOM;
        assert_eq!((bytes.capacity(), memory.used()), (grown, grown));
        room.make(bytes, announced, announced).unwrap();
        assert_eq!((bytes.capacity(), memory.used()), (announced, announced), "and never more than was announced");
    }

    #[test]
    fn a_body_without_a_length_grows_by_doubling() {
        let memory = Memory::new(64 << 20);
        let (bytes, mut grown) = (&mut Vec::new(), 0);
        let mut room = BodyRoom::new(&memory, &place(1));
        for piece in 1..=32 << 10 {
            let before = bytes.capacity();
            room.make(bytes, piece << 10, 0).unwrap();
            bytes.resize(piece << 10, 0);
            grown += usize::from(bytes.capacity() > before);
        }
        assert!(grown <= 17, "{grown} times for 32 MiB in pieces of a KiB");
    }

    #[tokio::test]
    async fn a_body_has_its_memory_until_it_is_dropped() {
        let memory = Memory::new(1 << 20);
        let read = async |length: usize, sent: usize| {
            read_raw(&announcing(length), Body::from(vec![b'x'; sent]), 4 << 20, &memory, &mut place(1)).await
        };
        let bytes = read(1_000, 1_000).await.unwrap();
        assert_eq!((bytes.len(), memory.used()), (1_000, 1_000));
        drop(bytes);
        assert_eq!(memory.used(), 0);
        // One announces its length, the other does not.
        for (announced, sent) in [(2 << 20, 2 << 20), (0, 2 << 20)] {
            let rejection = read(announced, sent).await.unwrap_err();
            assert_eq!((rejection.status(), memory.used()), (StatusCode::PAYLOAD_TOO_LARGE, 0), "it never fits");
        }
        let _other = read(0, 600_000).await.unwrap();
        assert_eq!(read(500_000, 500_000).await.unwrap_err().status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(read(5 << 20, 1).await.unwrap_err().status(), StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_not_there_yet_leaves_the_race() {
        let (places, memory) = (Arc::<RequestPlaces>::default(), Memory::new(64 << 20));
        let enter = || places.enter(ShareHolder::User(1), ShareLimits { all: 2, users: 1 }).unwrap();
        let counts = || (places.racing(), places.arriving());
        let read = async |body: Body, place: &mut RequestPlace| {
            read_raw(&HeaderMap::new(), body, 1 << 20, &memory, place)
                .await
                .map(drop)
                .map_err(|rejection| rejection.status())
        };
        let mut there = enter();
        assert_eq!(read(Body::from("{}"), &mut there).await, Ok(()));
        assert_eq!(counts(), (1, 0), "what is there at once stays");
        let second = Duration::from_secs(1);
        let slow = || body(3, 10, second);
        let (mut first, mut next, mut late) = (enter(), None, None);
        let second_body = async { read(slow(), next.insert(enter())).await };
        let (a, b, c) = tokio::join!(read(slow(), &mut first), second_body, async {
            tokio::time::sleep(second / 2).await;
            assert_eq!(counts(), (1, 2), "both leave the race to others");
            read(slow(), late.insert(enter())).await
        });
        assert_eq!((a, b, c), (Ok(()), Ok(()), Err(StatusCode::SERVICE_UNAVAILABLE)), "there are as many places");
        assert_eq!(late.unwrap().lost(), Some(ShedReason::InFlight));
        assert!(first.race().is_ok());
        assert_eq!(counts(), (2, 1));
        assert_eq!(next.unwrap().race(), Err(ShedReason::InFlight), "the race has filled up meanwhile");
    }
}
