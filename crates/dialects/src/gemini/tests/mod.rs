//! Tables of Gemini's streams and of requests to it.

mod failed;
mod request;
mod round_trip;
mod stream;
mod surface;
