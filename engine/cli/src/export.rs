//! Documents leave the workspace: into a folder that was named, and nowhere else.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::document::DocumentVersion;
use baton_core::path::DocumentPath;
use baton_store::Store;

use crate::exit::Failure;
use crate::runs::store_failure;

/// Writes `versions` below `folder`; returns the files written.
pub(crate) async fn versions(
    store: &Arc<dyn Store>,
    versions: &[&DocumentVersion],
    folder: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    let mut written = Vec::new();
    for version in versions {
        let content = content(store, version).await?;
        let file = place_for(folder, &version.path).and_then(|file| write_file(&file, &content).map(|()| file));
        written.push(file.map_err(|error| Failure::File { path: version.path.to_string(), error })?);
    }
    Ok(written)
}

/// The bytes of a document's version.
pub(crate) async fn content(store: &Arc<dyn Store>, version: &DocumentVersion) -> Result<Arc<[u8]>, Failure> {
    let found = store.content(version.content.hash).await.map_err(store_failure)?;
    found.ok_or_else(|| Failure::Store(format!("the content of {} is missing", version.reference())))
}

/// The file for `path` below `folder`. Folders on the way are made; one that is a link is refused, because it leads
/// somewhere that nobody named.
fn place_for(folder: &Path, path: &DocumentPath) -> io::Result<PathBuf> {
    let mut place = folder.to_owned();
    let mut components = path.as_str().split('/').peekable();
    while let Some(component) = components.next() {
        place.push(component);
        let found = fs::symlink_metadata(&place);
        if found.as_ref().is_ok_and(fs::Metadata::is_symlink) {
            return Err(io::Error::other(format!("{} is a link; documents are not written through links", place.display())));
        }
        if components.peek().is_some() && found.is_err() {
            fs::create_dir(&place)?;
        }
    }
    Ok(place)
}

/// Writes beside the file and renames, so that a reader sees the old file or the new one and no link is ever followed.
fn write_file(file: &Path, content: &[u8]) -> io::Result<()> {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let aside = file.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written =
        fs::File::create_new(&aside).and_then(|mut part| part.write_all(content)).and_then(|()| fs::rename(&aside, file));
    if written.is_err() {
        let _best_effort = fs::remove_file(&aside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_the_way_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("charts")).unwrap();
        let refused = place_for(folder.path(), &DocumentPath::parse("charts/q3.png").unwrap());
        assert!(refused.unwrap_err().to_string().contains("is a link"));
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = place_for(folder.path(), &DocumentPath::parse("a/b/c.txt").unwrap()).unwrap();
        write_file(&file, b"one").unwrap();
        write_file(&file, b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left aside");
    }
}
