//! Connections to providers: the pool, HTTP/1.1 and HTTP/2, proxies, certificates and name look-ups.

mod http2;
mod http2_both_sides;
mod invalid_http1;
mod loopback_without_proxy;
mod name_lookup;
mod pool;
mod proxies_and_certificates;
mod warm;
