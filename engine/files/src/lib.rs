//! Files of strangers, read within bounds; files of Baton's own, made for their owner alone.
//!
//! The sender of a folder decides its contents: a pipe without a writer, an endless device, a link to a file
//! elsewhere. [`open`] refuses everything but regular files, without blocking.
//!
//! It knows no format and no place: what a file means, and where it may be, is decided by its reader.

pub mod private;
mod program;

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

pub use program::own_program;

/// Opens a regular file to read it. A link, a folder, a pipe, a socket or a device is refused, and nothing is waited for.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path).map_err(|error| match std::fs::symlink_metadata(path) {
        Ok(facts) if facts.is_symlink() => refused("it is a symbolic link; expected a regular file"),
        Ok(facts) if !facts.is_file() => refused("it is not a regular file"),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused("it is not a regular file")) }
}

/// Returns the bytes of a regular file of at most `most` bytes. A larger one is refused before it is read.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_from(open(path)?, most)
}

/// Returns the first `most` bytes of a regular file.
pub fn read_start(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?.take(most).read_to_end(&mut content)?;
    Ok(content)
}

/// Returns the bytes of an open file of at most `most` bytes.
pub fn read_from(file: File, most: u64) -> io::Result<Vec<u8>> {
    let known = file.metadata()?.len();
    let mut content = Vec::new();
    if known <= most {
        file.take(most + 1).read_to_end(&mut content)?;
    }
    if known.max(content.len() as u64) > most {
        let message = format!("it is larger than {}, the most that is read here", size(most));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}

/// Whether something is at `path`, be it a link that leads nowhere.
pub fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

fn size(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{bytes} bytes") }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_within_the_bound_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("plain"), "12345").unwrap();
        assert_eq!(read(&at("plain"), 5).unwrap(), b"12345");
        assert_eq!(read_start(&at("plain"), 2).unwrap(), b"12");
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        symlink("/dev/zero", at("endless")).unwrap();
        symlink("plain", at("link")).unwrap();
        File::create(at("huge")).unwrap().set_len(3 << 30).unwrap();
        let reason = |name: &str| read(&at(name), 5).unwrap_err().to_string();
        for (name, expected) in [
            ("plain2", "No such file"),
            ("pipe", "not a regular file"),
            ("endless", "symbolic link"),
            ("link", "symbolic link"),
            ("huge", "larger than 5 bytes"),
            (".", "not a regular file"),
        ] {
            assert!(reason(name).contains(expected), "{name}: {}", reason(name));
        }
        assert!(read(Path::new("/dev/zero"), 5).unwrap_err().to_string().contains("not a regular file"));
    }
}
