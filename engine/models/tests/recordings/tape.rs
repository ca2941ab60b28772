//! The recordings: YAML files of one or more exchanges each, request and answer.

use std::path::{Path, PathBuf};

use baton_models::wire::Dialect;
use serde::Deserialize;

/// One file.
pub(crate) struct Tape {
    pub(crate) provider: String,
    pub(crate) exchanges: Vec<Exchange>,
}

/// A request and its answer.
#[derive(Deserialize)]
pub(crate) struct Exchange {
    pub(crate) when: Request,
    pub(crate) then: Response,
    /// The file, and its place in it.
    #[serde(skip)]
    pub(crate) place: String,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "who only reads answers has no use for all of it")]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) method: String,
    #[serde(default)]
    pub(crate) body: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Response {
    pub(crate) status: u16,
    #[serde(default)]
    header: Option<Vec<Header>>,
    #[serde(default)]
    body: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

/// What an exchange is.
pub(crate) enum Kind {
    /// A model's answer in one body.
    Whole(Dialect),
    /// A model's answer as a stream.
    Stream(Dialect),
    /// An error, whoever was asked.
    Fault,
    /// Something else than a model's answer.
    Other(String),
}

/// Where the recordings are: `BATON_FIXTURES`, or the folder beside the project's; in each, the folder `llm-recordings` if it is there.
pub(crate) fn folder() -> PathBuf {
    let beside = || {
        let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/fixtures"));
        above.find(|folder| folder.is_dir()).unwrap_or_default()
    };
    let fixtures = std::env::var_os("BATON_FIXTURES").map_or_else(beside, PathBuf::from);
    let recordings = fixtures.join("llm-recordings");
    if recordings.is_dir() || std::env::var_os("BATON_FIXTURES").is_none() { recordings } else { fixtures }
}

/// All recordings, in order; `None` if there are none here.
pub(crate) fn all() -> Option<Vec<Tape>> {
    let folder = folder();
    if !folder.is_dir() {
        return None;
    }
    let mut files = Vec::new();
    collect(&folder, &mut files);
    files.sort();
    Some(files.iter().map(|file| tape(&folder, file)).collect())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder can be listed") {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}

fn tape(folder: &Path, file: &Path) -> Tape {
    let shown = file.strip_prefix(folder).expect("files are below the folder").display().to_string();
    let text = std::fs::read_to_string(file).expect("a recording is text");
    let mut exchanges: Vec<Exchange> = serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{shown}: {error}"));
    for (index, exchange) in exchanges.iter_mut().enumerate() {
        exchange.place = format!("{shown} #{}", index + 1);
    }
    let provider = shown.split('/').next().unwrap_or_default().to_owned();
    Tape { provider, exchanges }
}

impl Exchange {
    pub(crate) fn text(&self) -> &str {
        self.then.body.as_deref().unwrap_or_default()
    }

    pub(crate) fn body(&self) -> &[u8] {
        self.text().as_bytes()
    }

    pub(crate) fn kind(&self) -> Kind {
        if self.then.status >= 400 {
            return Kind::Fault;
        }
        let path = self.when.path.as_str();
        let dialect = match path {
            _ if self.when.method != "POST" => None,
            _ if path.ends_with("/chat/completions") => Some(Dialect::Chat),
            _ if path.ends_with("/responses") => Some(Dialect::Responses),
            _ if path.ends_with("/messages") => Some(Dialect::Anthropic),
            "/api/chat" => Some(Dialect::Ollama),
            _ => None,
        };
        let streams = ["text/event-stream", "application/x-ndjson"];
        match dialect {
            Some(dialect) if streams.iter().any(|kind| self.content_type().starts_with(kind)) => Kind::Stream(dialect),
            Some(dialect) => Kind::Whole(dialect),
            None => Kind::Other(format!("{} {path}", self.when.method)),
        }
    }

    /// The type of the answer.
    pub(crate) fn content_type(&self) -> &str {
        let headers = self.then.header.iter().flatten();
        let mut found = headers.filter(|header| header.name.eq_ignore_ascii_case("content-type"));
        found.next().map(|header| header.value.as_str()).unwrap_or_default()
    }
}
