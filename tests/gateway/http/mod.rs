//! The gateway's own HTTP face: endpoints, authentication, errors, listeners and overload. Not for races.

mod ambiguous_requests;
mod api;
mod api_races;
mod auth;
mod bad_input;
mod browser_requests;
mod client_floods;
mod cors;
mod dashboard;
mod errors;
mod gemini;
mod headers_and_bodies;
mod http2;
mod listeners;
mod live;
mod metrics;
mod models;
mod native_surfaces;
mod ollama;
mod overload;
mod override_permissions;
mod passed_calls;
mod routing;
mod secrets;
mod surface_errors;
mod upstream_choice;
