//! Replaces a file in one step: a reader sees the old file or the new one, whole. Not for what is in it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::path::Path;

/// A sentence for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UpdateError(pub(super) String);

/// The work on the file stopped; the next try is as good.
impl From<tokio::task::JoinError> for UpdateError {
    fn from(error: tokio::task::JoinError) -> UpdateError {
        UpdateError(error.to_string())
    }
}

/// Writes a temporary file into the same directory and renames it. The mode of an existing file stays.
/// Does not replace a read-only file: its owner wants to keep it.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), UpdateError> {
    let failed = |why: &str| UpdateError(format!("cannot write {}: {why}", path.display()));
    let mode = match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            return Err(failed("it is a symbolic link, and only a file of its own is replaced"));
        }
        Ok(found) if !found.is_file() => return Err(failed("it is no file")),
        Ok(found) if found.permissions().readonly() => return Err(failed("it is read-only")),
        Ok(found) => Some(found.permissions()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(&error.to_string())),
    };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        return Err(failed(&format!(
            "there is no directory {}; `photofinish serve` makes that of its store",
            directory.display()
        )));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = directory.join(format!(".{name}.{:016x}", fastrand::u64(..)));
    let written = write_new(&temporary, bytes, mode).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // It may not have been made.
        let _ = fs::remove_file(&temporary);
        return Err(failed(&error.to_string()));
    }
    // The rename has happened; this makes it last through a power cut, where the file system can.
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}

/// Removes a file that was made here.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Never opens a file that is there, so no link can be prepared in its place.
fn write_new(path: &Path, bytes: &[u8], mode: Option<Permissions>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o644);
    let mut file = options.open(path)?;
    if let Some(mode) = mode {
        file.set_permissions(mode)?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}
