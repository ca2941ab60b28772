//! Files and folders that only their owner may read, regardless of the umask.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use tempfile::TempDir;

/// Makes `folder`, and those above it that are missing, for their owner alone. One that is there stays as it is.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Returns options that create files with mode 0600. Existing files keep their mode.
pub fn options() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder for temporary files, whose name begins with `prefix`. It is removed when it is dropped.
pub fn scratch_folder(prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

/// Makes an empty file unless something is there.
pub fn make_file(path: &Path) -> io::Result<()> {
    match options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file that must not be there yet.
pub fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    options().write(true).create_new(true).open(path)?.write_all(content)
}
