//! Content codings of HTTP bodies (RFC 9110, 8.4.1): gzip, deflate, Brotli and Zstandard. A body is decoded in steps into a
//! buffer, so that whoever decodes bounds its size; nothing is allocated by a size that the body claims, but a window.
//!
//! Pure. Not for reading bodies: see `proxy`.

use std::io::Write as _;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::write::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::named;

/// The room that one step needs, in bytes.
pub const STEP_MAX: usize = 128 << 10;
/// Members (gzip) or frames (Zstandard) of one body: each begins anew, which takes 5 µs, however little is in it.
const MEMBERS_MAX: u32 = 10_000;
/// The window of a Zstandard frame, as a power of two: 8 MiB, the largest that a content coding may have (RFC 9659).
const ZSTD_WINDOW_MAX: u32 = 23;
/// The same of Brotli (RFC 7932): 16 MiB.
const BROTLI_WINDOW_MAX: u32 = 24;
/// The same of gzip and deflate (RFC 1951): 32 KiB.
const DEFLATE_WINDOW_MAX: u32 = 15;
/// Bytes that Brotli decodes at once.
const BROTLI_PIECE: usize = 16 << 10;

named! {
    /// A content coding.
    pub enum ContentCoding {
        Zstd = "zstd",
        Brotli = "br",
        Gzip = "gzip",
        Deflate = "deflate",
    }
}

/// A value of `content-encoding` that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownCoding {
    /// The name of another coding.
    Name(String),
    /// More than one coding, one over the other.
    Several,
}

/// Why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecodable {
    Invalid,
    /// The body ends too early.
    Cut,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to decode.
    More,
    /// The input is used up, and all of it is decoded.
    NeedsInput,
}

impl ContentCoding {
    /// All names, as a value of `accept-encoding`.
    pub const NAMES: &str = "zstd, br, gzip, deflate";

    /// The coding that the values of `content-encoding` name. None without one: `identity` is none.
    ///
    /// # Errors
    /// Another coding, or more than one.
    pub fn of<'v>(values: impl Iterator<Item = &'v [u8]>) -> Result<Option<ContentCoding>, UnknownCoding> {
        let mut found = None;
        let names = values.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        for name in names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity")) {
            // The older name counts as the same (RFC 9110, 8.4.1.3).
            let name = if name.eq_ignore_ascii_case(b"x-gzip") { &b"gzip"[..] } else { name };
            let is_called = |coding: &ContentCoding| name.eq_ignore_ascii_case(coding.as_str().as_bytes());
            let unknown = || UnknownCoding::Name(String::from_utf8_lossy(name).into_owned());
            let coding = ContentCoding::ALL.into_iter().find(is_called).ok_or_else(unknown)?;
            if found.replace(coding).is_some() {
                return Err(UnknownCoding::Several);
            }
        }
        Ok(found)
    }

    /// The most decoded bytes that a decoder keeps.
    pub fn window_max(self) -> usize {
        1 << match self {
            ContentCoding::Zstd => ZSTD_WINDOW_MAX,
            ContentCoding::Brotli => BROTLI_WINDOW_MAX,
            ContentCoding::Gzip | ContentCoding::Deflate => DEFLATE_WINDOW_MAX,
        }
    }

    pub fn decoder(self) -> Decoder {
        Decoder(match self {
            ContentCoding::Zstd => {
                let mut context = DCtx::create();
                // Cannot fail: the value is in its range.
                context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_MAX)).ok();
                CodingState::Zstd { context, between_frames: true, ended: 0 }
            }
            ContentCoding::Brotli => {
                let allocator = StandardAlloc::default;
                let state = BrotliState::new_strict(allocator(), allocator(), allocator());
                CodingState::Brotli { state: Box::new(state), piece: vec![0; BROTLI_PIECE], ended: false }
            }
            ContentCoding::Gzip => CodingState::Gzip { member: Box::new(GzDecoder::new(Vec::new())), begun: 1 },
            ContentCoding::Deflate => CodingState::Deflate { inflate: None, head: Vec::new(), ended: false },
        })
    }
}

/// Decodes one body.
pub struct Decoder(CodingState);

enum CodingState {
    Zstd {
        context: DCtx<'static>,
        /// No frame is open.
        between_frames: bool,
        ended: u32,
    },
    Brotli {
        state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
        piece: Vec<u8>,
        ended: bool,
    },
    Gzip {
        member: Box<GzDecoder<Vec<u8>>>,
        /// Members that have begun.
        begun: u32,
    },
    Deflate {
        /// None until two bytes show whether it is zlib's format or, as some clients send it, bare.
        inflate: Option<Decompress>,
        head: Vec<u8>,
        ended: bool,
    },
}

impl Decoder {
    /// Decodes the next part of `input`, takes it away, and appends what it decodes to, in the spare room of `out`. If that is
    /// less than [`STEP_MAX`] bytes, it makes so much.
    ///
    /// # Errors
    /// The input is not valid.
    pub fn step(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Step, Undecodable> {
        if out.capacity() - out.len() < STEP_MAX {
            out.reserve_exact(STEP_MAX);
        }
        match &mut self.0 {
            CodingState::Zstd { context, between_frames, ended } => zstd(context, (between_frames, ended), input, out),
            CodingState::Brotli { state, piece, ended } => brotli(state, piece, ended, input, out),
            CodingState::Gzip { member, begun } => gzip(member, begun, input, out),
            CodingState::Deflate { inflate, head, ended } => deflate(inflate, head, ended, input, out),
        }
    }

    /// The body has ended.
    ///
    /// # Errors
    /// It is not complete, or its checksum is wrong.
    pub fn finish(self) -> Result<(), Undecodable> {
        let has_ended = match self.0 {
            CodingState::Zstd { between_frames, .. } => between_frames,
            CodingState::Brotli { ended, .. } | CodingState::Deflate { ended, .. } => ended,
            CodingState::Gzip { mut member, .. } => member.try_finish().is_ok(),
        };
        if has_ended { Ok(()) } else { Err(Undecodable::Cut) }
    }
}

fn zstd(
    context: &mut DCtx<'static>,
    (between_frames, ended): (&mut bool, &mut u32),
    input: &mut &[u8],
    out: &mut Vec<u8>,
) -> Result<Step, Undecodable> {
    if input.is_empty() && *between_frames {
        return Ok(Step::NeedsInput);
    }
    let start = out.len();
    let (mut source, mut target) = (InBuffer::around(input), OutBuffer::around_pos(out, start));
    let left = context.decompress_stream(&mut target, &mut source).map_err(|_| Undecodable::Invalid)?;
    let (read, is_full) = (source.pos, target.pos() == target.capacity());
    *between_frames = left == 0;
    *ended += u32::from(left == 0);
    if *ended > MEMBERS_MAX {
        return Err(Undecodable::Invalid);
    }
    *input = &input[read..];
    Ok(if input.is_empty() && !is_full { Step::NeedsInput } else { Step::More })
}

fn brotli(
    state: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    piece: &mut [u8],
    ended: &mut bool,
    input: &mut &[u8],
    out: &mut Vec<u8>,
) -> Result<Step, Undecodable> {
    if *ended {
        return if input.is_empty() { Ok(Step::NeedsInput) } else { Err(Undecodable::Invalid) };
    }
    let (mut left, mut read, mut room, mut wrote) = (input.len(), 0, piece.len(), 0);
    let result = BrotliDecompressStream(&mut left, &mut read, input, &mut room, &mut wrote, piece, &mut 0, state);
    out.extend_from_slice(&piece[..wrote]);
    *input = &input[read..];
    match result {
        BrotliResult::ResultFailure => Err(Undecodable::Invalid),
        BrotliResult::NeedsMoreInput => Ok(Step::NeedsInput),
        BrotliResult::NeedsMoreOutput => Ok(Step::More),
        BrotliResult::ResultSuccess => {
            *ended = true;
            Ok(Step::More)
        }
    }
}

fn gzip(
    member: &mut GzDecoder<Vec<u8>>,
    begun: &mut u32,
    input: &mut &[u8],
    out: &mut Vec<u8>,
) -> Result<Step, Undecodable> {
    // It decodes into a buffer of 32 KiB, and writes it here with the next call.
    let read = if input.is_empty() { 0 } else { member.write(input).map_err(|_| Undecodable::Invalid)? };
    if read == 0 && !input.is_empty() {
        // It has ended, and another one follows.
        member.try_finish().map_err(|_| Undecodable::Invalid)?;
        out.append(member.get_mut());
        *member = GzDecoder::new(Vec::new());
        *begun += 1;
        return if *begun > MEMBERS_MAX { Err(Undecodable::Invalid) } else { Ok(Step::More) };
    }
    *input = &input[read..];
    if input.is_empty() {
        member.flush().map_err(|_| Undecodable::Invalid)?;
    }
    out.append(member.get_mut());
    Ok(if input.is_empty() { Step::NeedsInput } else { Step::More })
}

fn deflate(
    inflate: &mut Option<Decompress>,
    head: &mut Vec<u8>,
    ended: &mut bool,
    input: &mut &[u8],
    out: &mut Vec<u8>,
) -> Result<Step, Undecodable> {
    if *ended {
        return if input.is_empty() { Ok(Step::NeedsInput) } else { Err(Undecodable::Invalid) };
    }
    let Some(decoder) = inflate.as_mut() else {
        let taken = (2 - head.len()).min(input.len());
        head.extend_from_slice(&input[..taken]);
        *input = &input[taken..];
        let [first, second] = head[..] else { return Ok(Step::NeedsInput) };
        let is_zlib = first & 0x0F == 8 && u16::from_be_bytes([first, second]) % 31 == 0;
        let decoder = inflate.insert(Decompress::new(is_zlib));
        decoder.decompress_vec(head, out, FlushDecompress::None).map_err(|_| Undecodable::Invalid)?;
        return Ok(Step::More);
    };
    let (read, wrote) = (decoder.total_in(), decoder.total_out());
    let status = decoder.decompress_vec(input, out, FlushDecompress::None).map_err(|_| Undecodable::Invalid)?;
    let (read, wrote) = (decoder.total_in() - read, decoder.total_out() - wrote);
    *input = &input[usize::try_from(read).unwrap_or(usize::MAX).min(input.len())..];
    match status {
        Status::StreamEnd => {
            *ended = true;
            Ok(Step::More)
        }
        _ if wrote > 0 => Ok(Step::More),
        _ if input.is_empty() => Ok(Step::NeedsInput),
        _ if read == 0 => Err(Undecodable::Invalid),
        _ => Ok(Step::More),
    }
}

#[cfg(test)]
mod tests;
