//! Each coding: whole, cut, spoiled, in pieces and as a bomb.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::prelude::*;
use zstd_safe::{CCtx, CParameter};

use super::*;

const TEXT: &str = "Hello, hello, hello: zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.";
/// [`TEXT`], by Node's zlib.
const BROTLI: &str = "1b5800d08cd4518ddbd9112afdef6f923ea0cec32eb0e57f8c51aebf3f496d79c1061c382494e842b30e7a12888c55c22163b5a57f877fac2c\
    87234cb37491b30c1a09e6e155a6867cab6b6c52e641e4b0601eaecfd6e2648ac80d";
/// 4 MiB of one letter, by the same.
const BROTLI_BOMB: &str = "9fffff3ff825c2e2b14020f7fe07";
/// Two lines, each flushed, by the same.
const BROTLI_FLUSHED: [&str; 2] = ["0b0580646174613a206f6e650a0a", "5000805f5ae18dee4e11a24a04600b"];
/// A window of 256 MiB, which is no content coding.
const BROTLI_LARGE: &str = "111cb0000248656c6c6f2e03";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn zstd_with_window(plain: &[u8], log: u32) -> Vec<u8> {
    let mut context = CCtx::create();
    context.set_parameter(CParameter::WindowLog(log)).unwrap();
    let mut coded = Vec::with_capacity(plain.len() + 1_024);
    let mut target = OutBuffer::around(&mut coded);
    // Without its end, so that the length is not known and the window is as set.
    context.compress_stream(&mut target, &mut InBuffer::around(plain)).unwrap();
    assert_eq!(context.end_stream(&mut target).unwrap(), 0);
    coded
}

fn coded(coding: ContentCoding, plain: &[u8]) -> Vec<u8> {
    match coding {
        ContentCoding::Zstd => zstd_with_window(plain, 20),
        ContentCoding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        ContentCoding::Deflate => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        ContentCoding::Brotli => {
            assert_eq!(plain, TEXT.as_bytes());
            bytes(BROTLI)
        }
    }
}

/// Decodes pieces until the buffer holds `max` bytes.
fn decoded_until(coding: ContentCoding, pieces: &[&[u8]], max: usize) -> Result<Vec<u8>, Undecodable> {
    let (mut decoder, mut out) = (coding.decoder(), Vec::new());
    for piece in pieces {
        let mut input = *piece;
        while decoder.step(&mut input, &mut out)? == Step::More {
            if out.len() > max {
                return Ok(out);
            }
        }
        assert!(input.is_empty());
    }
    decoder.finish().map(|()| out)
}

fn decoded(coding: ContentCoding, pieces: &[&[u8]]) -> Result<Vec<u8>, Undecodable> {
    decoded_until(coding, pieces, usize::MAX)
}

#[test]
fn every_coding_is_decoded_whole_cut_and_spoiled() {
    for coding in ContentCoding::ALL {
        let whole = coded(coding, TEXT.as_bytes());
        assert_eq!(decoded(coding, &[&whole]).unwrap(), TEXT.as_bytes(), "{coding:?}");
        let single: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(decoded(coding, &single).unwrap(), TEXT.as_bytes(), "{coding:?} byte by byte");
        for end in 0..whole.len() {
            let error = decoded(coding, &[&whole[..end]]);
            // A Zstandard body of no frame is complete; the caller knows that it is empty.
            let is_empty = coding == ContentCoding::Zstd && end == 0;
            assert!(error.is_err() || is_empty, "{coding:?} cut at {end}");
        }
        let behind = [&whole, b"more".as_slice()].concat();
        assert!(decoded(coding, &[&behind]).is_err(), "{coding:?}");
        assert!(decoded(coding, &[b"{\"model\":\"m\"}"]).is_err(), "{coding:?}");
    }
}

/// The lines, each flushed: what a server sends that compresses a stream of events.
fn flushed(coding: ContentCoding, lines: [&str; 2]) -> [Vec<u8>; 2] {
    let mut sent = 0;
    let mut rest = |all: &[u8]| all[std::mem::replace(&mut sent, all.len())..].to_vec();
    match coding {
        ContentCoding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            lines.map(|line| {
                encoder.write_all(line.as_bytes()).and_then(|()| encoder.flush()).unwrap();
                rest(encoder.get_ref())
            })
        }
        ContentCoding::Deflate => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            lines.map(|line| {
                encoder.write_all(line.as_bytes()).and_then(|()| encoder.flush()).unwrap();
                rest(encoder.get_ref())
            })
        }
        ContentCoding::Zstd => {
            let mut context = CCtx::create();
            lines.map(|line| {
                let mut coded = Vec::with_capacity(1_024);
                let mut target = OutBuffer::around(&mut coded);
                context.compress_stream(&mut target, &mut InBuffer::around(line.as_bytes())).unwrap();
                assert_eq!(context.flush_stream(&mut target).unwrap(), 0);
                coded
            })
        }
        ContentCoding::Brotli => BROTLI_FLUSHED.map(bytes),
    }
}

#[test]
fn what_was_flushed_is_decoded_at_once() {
    let lines = ["data: one\n\n", "data: two\n\n"];
    for coding in ContentCoding::ALL {
        let mut decoder = coding.decoder();
        for (line, coded) in lines.iter().zip(flushed(coding, lines)) {
            let (mut input, mut out) = (&coded[..], Vec::new());
            while decoder.step(&mut input, &mut out).unwrap() == Step::More {}
            assert_eq!(String::from_utf8_lossy(&out), *line, "{coding:?}");
        }
    }
}

#[test]
fn a_body_may_have_several_members_or_frames() {
    for coding in [ContentCoding::Zstd, ContentCoding::Gzip] {
        let one = coded(coding, b"one ");
        assert_eq!(decoded(coding, &[&[&one[..], &one].concat()]).unwrap(), b"one one ", "{coding:?}");
    }
    // A skippable frame of three bytes.
    let skipped = [&[0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &coded(ContentCoding::Zstd, b"one")].concat();
    assert_eq!(decoded(ContentCoding::Zstd, &[&skipped]).unwrap(), b"one");
}

#[test]
fn empty_members_and_frames_are_bounded() {
    for coding in [ContentCoding::Zstd, ContentCoding::Gzip] {
        let [one, more] = [1, 2].map(|times| coded(coding, b"").repeat(times * MEMBERS_MAX as usize));
        assert_eq!(decoded(coding, &[&one[..one.len() - coded(coding, b"").len()]]).unwrap(), b"", "{coding:?}");
        assert_eq!(decoded(coding, &[&more]), Err(Undecodable::Invalid), "{coding:?}");
    }
}

#[test]
fn deflate_may_be_bare() {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(TEXT.as_bytes()).unwrap();
    assert_eq!(decoded(ContentCoding::Deflate, &[&encoder.finish().unwrap()]).unwrap(), TEXT.as_bytes());
}

#[test]
fn windows_beyond_the_standard_s_are_refused() {
    let plain = TEXT.as_bytes();
    assert_eq!(decoded(ContentCoding::Zstd, &[&zstd_with_window(plain, ZSTD_WINDOW_MAX)]).unwrap(), plain);
    let larger = zstd_with_window(plain, ZSTD_WINDOW_MAX + 1);
    assert_eq!(decoded(ContentCoding::Zstd, &[&larger]), Err(Undecodable::Invalid));
    assert_eq!(decoded(ContentCoding::Brotli, &[&bytes(BROTLI_LARGE)]), Err(Undecodable::Invalid));
}

#[test]
fn a_bomb_takes_no_more_than_the_bound_and_a_step() {
    const MAX: usize = 1 << 20;
    let plain = vec![b'a'; 4 << 20];
    for coding in ContentCoding::ALL {
        let bomb = if coding == ContentCoding::Brotli { bytes(BROTLI_BOMB) } else { coded(coding, &plain) };
        assert!(bomb.len() < 32 << 10, "{coding:?}");
        let stopped = decoded_until(coding, &[&bomb], MAX).unwrap();
        assert!(stopped.len() > MAX && stopped.capacity() <= MAX + 2 * STEP_MAX, "{coding:?} {}", stopped.capacity());
        assert_eq!(decoded(coding, &[&bomb]).unwrap().len(), plain.len(), "{coding:?}");
    }
}

#[test]
fn a_body_has_one_coding_or_none() {
    let of = |values: &[&str]| ContentCoding::of(values.iter().map(|value| value.as_bytes()));
    for (values, expected) in [
        (&[][..], Ok(None)),
        (&[""], Ok(None)),
        (&["identity"], Ok(None)),
        (&["Identity", " , "], Ok(None)),
        (&["gzip"], Ok(Some(ContentCoding::Gzip))),
        (&[" GZip , identity"], Ok(Some(ContentCoding::Gzip))),
        (&["x-gzip"], Ok(Some(ContentCoding::Gzip))),
        (&["deflate"], Ok(Some(ContentCoding::Deflate))),
        (&["br"], Ok(Some(ContentCoding::Brotli))),
        (&["zstd"], Ok(Some(ContentCoding::Zstd))),
        (&["gzip, zstd"], Err(UnknownCoding::Several)),
        (&["gzip", "gzip"], Err(UnknownCoding::Several)),
        (&["compress"], Err(UnknownCoding::Name("compress".to_owned()))),
        (&["gzip, lzma"], Err(UnknownCoding::Name("lzma".to_owned()))),
        (&["gzip;q=1"], Err(UnknownCoding::Name("gzip;q=1".to_owned()))),
    ] {
        assert_eq!(of(values), expected, "{values:?}");
    }
    let names = ContentCoding::ALL.map(ContentCoding::as_str).join(", ");
    assert_eq!(ContentCoding::NAMES, names);
}

proptest! {
    #[test]
    fn no_cut_of_the_input_changes_what_is_decoded(plain in prop::collection::vec(0u8..4, 0..5_000), cuts in prop::collection::vec(1usize..200, 1..9)) {
        for coding in [ContentCoding::Zstd, ContentCoding::Gzip, ContentCoding::Deflate] {
            let whole = coded(coding, &plain);
            let (mut pieces, mut rest) = (Vec::new(), &whole[..]);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(&decoded(coding, &pieces).unwrap(), &plain);
        }
    }

    #[test]
    fn never_panics(noise in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..200, coding in 0usize..4) {
        let coding = ContentCoding::ALL[coding];
        let _ = decoded_until(coding, &[&noise], 1 << 20);
        let mut spoiled = coded(coding, TEXT.as_bytes());
        let at = at % spoiled.len();
        spoiled[at] ^= noise.first().copied().unwrap_or(1);
        let _ = decoded_until(coding, &[&spoiled], 1 << 20);
    }
}
