//! A copy of the project in which every mutant is there at once, each behind a switch that the environment turns on.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::list::{Genre, Mutant};
use crate::sites::{self, Site};

/// Code of the switches. `at` returns the active one of these mutants, or 0, and notes that they were reached.
const SWITCHES: &str = r#"
#[doc(hidden)]
#[allow(missing_docs, reason = "only planted code uses it")]
pub mod mutation {
    use std::fs::File;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{LazyLock, Mutex};

    static ON: LazyLock<u32> =
        LazyLock::new(|| std::env::var("BATON_MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(0));
    static TRACE: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
        let path = std::env::var_os("BATON_MUTANTS_REACHED")?;
        Some(Mutex::new(File::options().create(true).append(true).open(path).expect("the trace can be written")))
    });
    static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

    pub fn on(id: u32) -> bool {
        at(&[id]) == id
    }

    pub fn at(ids: &[u32]) -> u32 {
        if let Some(trace) = &*TRACE {
            for id in ids {
                if !REACHED[*id as usize].swap(true, Ordering::Relaxed) {
                    let line = format!("{id}\n");
                    trace.lock().unwrap().write_all(line.as_bytes()).expect("the trace can be written");
                }
            }
        }
        if ids.contains(&ON) { *ON } else { 0 }
    }
}
"#;

/// The copy, and the places of its mutants.
pub(crate) struct Planted {
    /// Its folder.
    pub(crate) tree: PathBuf,
    /// The mutants that are not in it, with the reason.
    pub(crate) left_out: BTreeMap<u32, String>,
    /// The file that keeps them for the next run of the chore.
    kept: PathBuf,
    /// Files of the project at the start. Later edits do not disturb the trial.
    sources: Vec<(String, Vec<u8>)>,
    libraries: Vec<String>,
    mutants: Vec<Mutant>,
    /// Positions of the mutants in the files of the copy.
    placed: BTreeMap<String, Vec<Placed>>,
}

/// Mutants in a file of the copy.
struct Placed {
    /// The bytes of their own text, or of all that they surround.
    range: Range<usize>,
    ids: Vec<u32>,
    /// Whether it is their own text: an error in there is surely theirs.
    own: bool,
}

impl Planted {
    /// Returns a copy at `tree` of the project at `root`, not yet written. The switches go into `libraries`, the
    /// `lib.rs` of each crate. The mutants that an earlier run left out are in the file `kept`.
    ///
    /// # Errors
    ///
    /// The project's files cannot be listed.
    pub(crate) fn new(
        root: &Path,
        tree: PathBuf,
        libraries: &[String],
        mutants: Vec<Mutant>,
        kept: PathBuf,
    ) -> anyhow::Result<Self> {
        // A file that was removed and not yet committed is listed too.
        let read = |file: String| fs::read(root.join(&file)).ok().map(|bytes| (file, bytes));
        let sources = files(root)?.into_iter().filter_map(read).collect();
        let libraries = libraries.to_vec();
        let earlier: BTreeMap<String, String> =
            fs::read(&kept).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let left_out = mutants.iter().filter_map(|mutant| Some((mutant.id, earlier.get(&mutant.name)?.clone()))).collect();
        Ok(Self { tree, left_out, kept, sources, libraries, mutants, placed: BTreeMap::new() })
    }

    /// Writes the copy, with the mutants that are not left out.
    pub(crate) fn write(&mut self) -> anyhow::Result<()> {
        let switches = SWITCHES.replace("COUNT", &(self.mutants.len() + 1).to_string());
        for (file, bytes) in &self.sources {
            let mutants: Vec<&Mutant> =
                self.mutants.iter().filter(|mutant| mutant.file == *file && !self.left_out.contains_key(&mutant.id)).collect();
            if mutants.is_empty() && !self.libraries.contains(file) {
                update(&self.tree.join(file), bytes)?;
                continue;
            }
            let source = std::str::from_utf8(bytes).with_context(|| format!("{file} is not text"))?;
            let found = sites::find(source, &mutants).with_context(|| file.clone())?;
            self.left_out.extend(found.left_out.into_iter().map(|(id, why)| (id, why.to_owned())));
            let mut text = Written { source, text: String::new(), placed: Vec::new() };
            let mut order: Vec<&Site> = found.sites.iter().collect();
            // Outer places before those within; bodies were found before what they consist of.
            order.sort_by_key(|site| (site.span.start, std::cmp::Reverse(site.span.end)));
            text.range(0..source.len(), &order);
            if self.libraries.contains(file) {
                text.text += &switches;
            }
            update(&self.tree.join(file), text.text.as_bytes())?;
            self.placed.insert(file.clone(), text.placed);
        }
        let left_out: BTreeMap<&str, &str> =
            self.left_out.iter().map(|(id, why)| (self.mutants[*id as usize - 1].name.as_str(), why.as_str())).collect();
        update(&self.kept, &serde_json::to_vec(&left_out)?)
    }

    /// Takes out the mutants that the compiler refuses: those whose text, or else whose place, holds the byte of `file`.
    /// False if there are none.
    pub(crate) fn refuse(&mut self, file: &str, byte: usize, why: &str) -> bool {
        let Some(placed) = self.placed.get(file) else { return false };
        let holding = placed
            .iter()
            .filter(|placed| placed.range.contains(&byte) && placed.ids.iter().any(|id| !self.left_out.contains_key(id)));
        // What a body returns early decides what its end may be, which is where the compiler complains.
        let is_body = |placed: &Placed| self.mutants[placed.ids[0] as usize - 1].genre == Genre::FnValue;
        let nearest = holding.min_by_key(|placed| (!placed.own, !is_body(placed), placed.range.len()));
        let Some(Placed { ids, .. }) = nearest else { return false };
        self.left_out.extend(ids.iter().map(|id| (*id, why.to_owned())));
        true
    }
}

/// A file being written.
struct Written<'a> {
    source: &'a str,
    text: String,
    placed: Vec<Placed>,
}

impl Written<'_> {
    /// Writes `range` of the source with the `sites` in it.
    fn range(&mut self, range: Range<usize>, sites: &[&Site]) {
        let mut at = range.start;
        let mut rest = sites;
        while let Some((site, after)) = rest.split_first() {
            self.text += &self.source[at..site.span.start];
            let begin = self.text.len();
            for (id, part) in &site.mutants {
                let range = begin + part.start..begin + part.end;
                self.placed.push(Placed { range, ids: vec![*id], own: true });
            }
            self.text += &site.before;
            let within =
                after.iter().take_while(|inner| inner.span.end <= site.span.end && inner.span.start < site.span.end).count();
            self.range(site.span.clone(), &after[..within]);
            self.text += &site.after;
            let ids = site.mutants.iter().map(|(id, _)| *id).collect();
            self.placed.push(Placed { range: begin..self.text.len(), ids, own: false });
            at = site.span.end;
            rest = &after[within..];
        }
        self.text += &self.source[at..range.end];
    }
}

/// Returns the files of the project.
fn files(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let listed = list.output().context("git cannot be started")?;
    ensure!(listed.status.success(), "the project's files cannot be listed: {}", String::from_utf8_lossy(&listed.stderr));
    Ok(String::from_utf8(listed.stdout)?.split_terminator('\0').map(str::to_owned).collect())
}

/// Writes a file unless it has the same content already, so that little is built again.
fn update(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
    fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}
