//! Decodes the body of a request that has a `content-encoding`. Not for the codings: see `coding`.

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};

use super::blocking::{INLINE_MAX, StillWanted};
use super::body::{self, BodyRoom};
use super::gateway::Gateway;
use super::places::RequestPlace;
use super::rejection::Rejection;
use photofinish_base::clock::Instant;
use photofinish_base::coding::{ContentCoding, STEP_MAX, Step};

/// The whole body, decoded. `max` bounds it before and after.
///
/// # Errors
/// As [`body::read`]; 415 for a coding that is not supported, 400 for a body that cannot be decoded.
pub async fn read(
    gateway: &Gateway,
    headers: &HeaderMap,
    body: Body,
    max: usize,
    place: &mut RequestPlace,
) -> Result<Bytes, Rejection> {
    if !headers.contains_key(CONTENT_ENCODING) {
        return body::read(headers, body, max, gateway.budget(), place).await;
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
            if body::is_awaited(headers, &body) {
                body::discard(body, max).await;
            }
            return Err(Rejection::unknown_coding(&unknown));
        }
    };
    let coded = body::read(headers, body, max, gateway.budget(), place).await?;
    let Some(coding) = coding.filter(|_| !coded.is_empty()) else { return Ok(coded) };
    // Nobody knows how much it will be. Little is decoded in place; more begins anew on another thread.
    if coded.len() <= INLINE_MAX {
        match decoded(
            coding,
            &coded,
            INLINE_MAX.min(max),
            BodyRoom::new(gateway.budget(), place),
            &StillWanted::anyhow(),
        ) {
            Err(DecodeFailure::TooLong) if max > INLINE_MAX => {}
            done => return done.map_err(|failure| failure.rejection(max)),
        }
    }
    let until = Instant::now() + gateway.live().config.race.timeouts.total;
    let (length, room) = (coded.len().max(INLINE_MAX + 1), BodyRoom::new(gateway.budget(), place));
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
