//! Frames of `application/vnd.amazon.eventstream`, the binary event stream of AWS.

use std::fmt::Display;

use bytes::Bytes;

/// A frame of AWS's binary event stream.
pub fn message(headers: &[(&str, &str)], payload: &impl Display) -> Bytes {
    let payload = payload.to_string();
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(u8::try_from(name.len()).unwrap());
        block.extend_from_slice(name.as_bytes());
        // A text.
        block.push(7);
        block.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        block.extend_from_slice(value.as_bytes());
    }
    let mut frame = prelude(12 + block.len() + payload.len() + 4, block.len());
    frame.extend_from_slice(&block);
    frame.extend_from_slice(payload.as_bytes());
    let checksum = crc32(&frame);
    frame.extend_from_slice(&checksum.to_be_bytes());
    Bytes::from(frame)
}

/// The event type and the payload of a frame that [`message`] made.
pub fn event_and_payload(frame: &[u8]) -> (String, String) {
    let headers = usize::try_from(u32::from_be_bytes(frame[4..8].try_into().unwrap())).unwrap();
    let (headers, rest) = frame[12..].split_at(headers);
    let name_end = 1 + usize::from(headers[0]);
    let value = name_end + 3;
    let length = usize::from(u16::from_be_bytes(headers[name_end + 1..value].try_into().unwrap()));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&headers[value..value + length]), text(&rest[..rest.len() - 4]))
}

/// The prelude of a frame of this length, with this length of headers.
pub(super) fn prelude(total: usize, headers: usize) -> Vec<u8> {
    let mut prelude = Vec::new();
    for length in [total, headers] {
        prelude.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
    }
    let checksum = crc32(&prelude);
    prelude.extend_from_slice(&checksum.to_be_bytes());
    prelude
}

/// Bit by bit: the checksum of zip and Ethernet.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
