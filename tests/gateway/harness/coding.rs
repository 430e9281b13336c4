//! Bodies in each content coding, as clients and providers send them.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use zstd_safe::{CCtx, InBuffer, OutBuffer};

pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

pub fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(plain: &[u8]) -> Vec<u8> {
    let mut coded = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
    zstd_safe::compress(&mut coded, plain, 3).unwrap();
    coded
}

/// Two parts of one body, each flushed, as servers compress a stream.
pub fn flushed(coding: &str, parts: [&str; 2]) -> [Vec<u8>; 2] {
    let two = |first: usize, all: Vec<u8>| [all[..first].to_vec(), all[first..].to_vec()];
    match coding {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(parts[0].as_bytes()).and_then(|()| encoder.flush()).unwrap();
            let first = encoder.get_ref().len();
            encoder.write_all(parts[1].as_bytes()).unwrap();
            two(first, encoder.finish().unwrap())
        }
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(parts[0].as_bytes()).and_then(|()| encoder.flush()).unwrap();
            let first = encoder.get_ref().len();
            encoder.write_all(parts[1].as_bytes()).unwrap();
            two(first, encoder.finish().unwrap())
        }
        "zstd" => {
            let mut context = CCtx::create();
            let mut all = Vec::with_capacity(64 << 10);
            let mut target = OutBuffer::around(&mut all);
            context.compress_stream(&mut target, &mut InBuffer::around(parts[0].as_bytes())).unwrap();
            assert_eq!(context.flush_stream(&mut target).unwrap(), 0);
            let first = target.pos();
            context.compress_stream(&mut target, &mut InBuffer::around(parts[1].as_bytes())).unwrap();
            assert_eq!(context.end_stream(&mut target).unwrap(), 0);
            two(first, all)
        }
        coding => panic!("no encoder for {coding}"),
    }
}

pub fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
