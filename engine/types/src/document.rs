//! Documents: versioned records with a path. The core holds records, never bytes.

use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, VectorSync};
use serde::{Deserialize, Serialize};

use crate::id::{CallId, ContentHash, TaskId};
use crate::json::Json;
use crate::path::DocumentPath;
use crate::principal::Principal;
use crate::time::Timestamp;

/// The bytes of a document, shared.
pub type Content = Arc<[u8]>;

/// One version of a document, named: what delegations, handoffs and injections carry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DocumentRef {
    /// Which document.
    pub path: DocumentPath,
    /// Which of its versions, from 1.
    pub version: u32,
}

impl std::fmt::Display for DocumentRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} v{}", self.path, self.version)
    }
}

/// The facts of one content, measured by the shell before the core sees a write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ContentFacts {
    /// The content's name in the store.
    pub hash: ContentHash,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// Such as `text/csv`.
    pub mime_type: String,
    /// An estimate (≈), made once; see [`crate::estimate`].
    pub token_count: u64,
    /// The first words of a text, or what kind of data it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
}

/// Whether content of this media type may be UTF-8 text. Extensions such as `.ts` mean a film to one and a program to
/// another; the bytes decide.
pub fn may_be_text(mime_type: &str) -> bool {
    let binary_application = [
        "octet-stream",
        "pdf",
        "zip",
        "x-zip-compressed",
        "java-archive",
        "gzip",
        "x-gzip",
        "x-executable",
        "vnd.sqlite3",
        "wasm",
        "x-tar",
        "msword",
    ];
    match mime_type.split_once('/') {
        Some(("image", subtype)) => subtype.contains("svg"),
        Some(("audio" | "video" | "font", _)) => false,
        Some(("application", subtype)) => {
            !binary_application.contains(&subtype) && !is_zip_package(mime_type) && !subtype.starts_with("vnd.ms-")
        }
        _ => true,
    }
}

/// Whether documents of this type are ZIP archives.
pub fn is_zip_package(essence: &str) -> bool {
    ["application/vnd.openxmlformats", "application/vnd.oasis.opendocument"].iter().any(|prefix| essence.starts_with(prefix))
        || essence == "application/epub+zip"
}

/// Returns the content of a document that holds `output`, its MIME type and the ending of its path: a string as plain text,
/// any other value as JSON.
pub fn output_content(output: &Json) -> (Content, &'static str, &'static str) {
    match output.value() {
        serde_json::Value::String(text) => (text.into_bytes().into(), "text/plain", "txt"),
        _ => (output.text().as_bytes().into(), "application/json", "json"),
    }
}

/// A write that a tool, a person or the job asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Write {
    /// Which document.
    pub path: DocumentPath,
    /// New content.
    pub content: ContentFacts,
    /// Purpose of the document; kept from the version before when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Words to find it by; kept from the version before when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
}

/// One immutable version of a document with its provenance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DocumentVersion {
    /// Which document.
    pub path: DocumentPath,
    /// 1, 2, … without gaps.
    pub version: u32,
    /// The version it was made from; `None` for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// Its content.
    pub content: ContentFacts,
    /// Its purpose.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The task that wrote it; `None` for the job's own documents and a person's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The call that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Its author; `None` for the job's own documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<Principal>,
    /// When it was written.
    pub at: Timestamp,
}

impl DocumentVersion {
    /// This version's name.
    pub fn reference(&self) -> DocumentRef {
        DocumentRef { path: self.path.clone(), version: self.version }
    }

    /// Returns its author for agents: a task id, a person or program, or `job` for the job's own documents.
    pub fn author(&self) -> String {
        match (&self.task, &self.created_by) {
            (Some(task), _) => task.to_string(),
            (None, Some(person)) => person.to_string(),
            (None, None) => "job".to_owned(),
        }
    }
}

/// A document: its versions, oldest first, never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    versions: VectorSync<Arc<DocumentVersion>>,
}

impl Document {
    /// Returns the newest version.
    pub fn current(&self) -> &Arc<DocumentVersion> {
        self.versions.last().expect("a document has at least one version")
    }

    /// Returns version `version`, if it exists.
    pub fn version(&self, version: u32) -> Option<&Arc<DocumentVersion>> {
        self.versions.get((version as usize).checked_sub(1)?)
    }

    /// Returns all versions, oldest first.
    pub fn versions(&self) -> impl ExactSizeIterator<Item = &Arc<DocumentVersion>> {
        self.versions.iter()
    }
}

/// The workspace: every document of a run. Cloning one is a constant-time snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documents {
    by_path: RedBlackTreeMapSync<DocumentPath, Arc<Document>>,
    names: Names,
}

/// Paths by what they look like, so that two spellings never become two documents and no document is also a folder.
/// Cloning is a constant-time snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names(RedBlackTreeMapSync<String, DocumentPath>);

impl Names {
    /// Returns another path that could be confused with `path` (case, compatibility forms), or of which one would be a
    /// folder of the other.
    pub fn twin(&self, path: &DocumentPath) -> Option<&DocumentPath> {
        let skeleton = path.skeleton();
        if let Some(existing) = self.0.get(&skeleton) {
            return Some(existing).filter(|existing| *existing != path);
        }
        let above = skeleton.match_indices('/').find_map(|(end, _)| self.0.get(&skeleton[..end]));
        let folder = format!("{skeleton}/");
        let mut from_folder = self.0.range(folder.clone()..);
        above.or_else(|| from_folder.next().filter(|(name, _)| name.starts_with(&folder)).map(|(_, existing)| existing))
    }

    /// Adds `path`.
    pub fn insert(&mut self, path: &DocumentPath) {
        self.0.insert_mut(path.skeleton(), path.clone());
    }
}

impl Documents {
    /// Returns the document at `path`.
    pub fn get(&self, path: &DocumentPath) -> Option<&Arc<Document>> {
        self.by_path.get(path)
    }

    /// Returns the newest version number of `path`; `None` if there is no such document.
    pub fn head(&self, path: &DocumentPath) -> Option<u32> {
        self.get(path).map(|document| document.current().version)
    }

    /// Returns the version that `reference` names.
    pub fn version(&self, reference: &DocumentRef) -> Option<&Arc<DocumentVersion>> {
        self.get(&reference.path)?.version(reference.version)
    }

    /// Returns all documents, ordered by path.
    pub fn iter(&self) -> impl Iterator<Item = (&DocumentPath, &Arc<Document>)> {
        self.by_path.iter()
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.by_path.size()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// Returns another document whose path could be confused with `path`; see [`Names::twin`].
    pub fn twin(&self, path: &DocumentPath) -> Option<&DocumentPath> {
        self.names.twin(path)
    }

    /// Returns the first of `writes` whose path could be confused with that of a document or of an earlier write, and that
    /// other path.
    pub fn twin_of<'w>(&self, writes: &'w [Write]) -> Option<(&'w DocumentPath, DocumentPath)> {
        let mut names = self.names.clone();
        writes.iter().find_map(|write| {
            let twin = names.twin(&write.path).cloned();
            names.insert(&write.path);
            Some((&write.path, twin?))
        })
    }

    /// Adds a version; used by `apply` alone, and by contexts for tests.
    pub fn insert(&mut self, version: impl Into<Arc<DocumentVersion>>) {
        let version = version.into();
        let path = version.path.clone();
        let mut document =
            self.by_path.get(&path).map_or_else(|| Document { versions: VectorSync::new_sync() }, |known| Document::clone(known));
        document.versions.push_back_mut(version);
        self.names.insert(&path);
        self.by_path.insert_mut(path, Arc::new(document));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_neither_written_in_two_ways_nor_both_document_and_folder() {
        let path = |text: &str| DocumentPath::parse(text).unwrap();
        let mut names = Names::default();
        for taken in ["Report.md", "charts/q3.png", "a"] {
            names.insert(&path(taken));
        }
        for (new, twin) in [("report.md", "Report.md"), ("charts", "charts/q3.png"), ("a/b/c", "a"), ("CHARTS", "charts/q3.png")]
        {
            assert_eq!(names.twin(&path(new)), Some(&path(twin)), "{new}");
        }
        for free in ["Report.md", "charts/q4.png", "ab", "chart", "a.b"] {
            assert_eq!(names.twin(&path(free)), None, "{free}");
        }
    }
}
