//! Compresses the catalogue of models, which the program contains.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use flate2::{Compression, GzBuilder};

const CATALOGUE: &str = "data/catalogue.json";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={CATALOGUE}");
    let to = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("catalogue.json.gz");
    let mut encoder = GzBuilder::new().write(fs::File::create(to)?, Compression::best());
    encoder.write_all(&fs::read(CATALOGUE)?)?;
    encoder.finish().map(drop)
}
