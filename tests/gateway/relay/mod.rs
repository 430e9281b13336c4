//! The winner's answer as the client gets it: the stream, its end, and what happens when it breaks off.

mod answer_ends;
mod broken_streams;
mod byte_for_byte;
mod compressed_answers;
mod endless_answers;
mod garbled_streams;
mod holes;
mod keepalive;
mod large_events;
mod rescued_stream;
mod rescued_whole_answer;
mod slow_to_read;
mod stream_ends;
mod unstreamed_events;
mod unusual_answers;
mod wrong_answers;
