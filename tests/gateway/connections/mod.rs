//! Connections to providers: the pool, HTTP/1.1 and HTTP/2, proxies, certificates and name look-ups.

mod heads;
mod http1_required;
mod http2;
mod http2_both_sides;
mod invalid_http1;
mod loopback_without_proxy;
mod name_lookup;
mod pool;
mod proxies_and_certificates;
mod warm;

use crate::support::FakeProvider;

/// A TLS provider's authority in a file, and the config line with its path.
fn trusting(fake: &FakeProvider) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, fake.ca()).unwrap();
    let line = format!("ca_file = \"{}\"\n", path.display());
    (folder, line)
}
