//! Tables of Ollama's streams and of requests to it.

mod request;
mod stream;
mod surface;
