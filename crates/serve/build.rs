//! Compresses what the program contains and serves: the files of the dashboard and the OpenAPI document. `site.rs` lists the
//! files with their names.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};

const SITE: &str = "src/dashboard/site";
const DOCUMENT: [(&str, &str); 2] =
    [("src/server/api/openapi.json", "openapi.json.gz"), ("src/server/api/routing.json", "routing.json.gz")];

fn main() -> std::io::Result<()> {
    let to = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let mut files = Vec::new();
    list(Path::new(SITE), &mut files)?;
    files.sort();
    let mut site = String::from("&[\n");
    for (number, file) in files.iter().enumerate() {
        let name = file.strip_prefix(SITE).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let packed = to.join(format!("{number}.gz"));
        pack(file, &packed)?;
        site += &format!("    ({name:?}, include_bytes!(\"{number}.gz\")),\n");
    }
    fs::write(to.join("site.rs"), site + "]\n")?;
    for (file, packed) in DOCUMENT {
        pack(Path::new(file), &to.join(packed))?;
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-changed={SITE}");
    Ok(())
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { list(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

fn pack(file: &Path, to: &Path) -> std::io::Result<()> {
    let mut encoder = GzBuilder::new().write(fs::File::create(to)?, Compression::best());
    encoder.write_all(&fs::read(file)?)?;
    encoder.finish().map(drop)
}
