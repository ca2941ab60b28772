//! `baton docs`: writes pages about the tools and the agents of a job or a project, or checks that they are up to date.

mod pages;

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use baton_docs::is_generated;
use clap::{Args, ValueHint};
use serde::Serialize;
use serde_json::json;

use self::pages::Pages;
use crate::app::complete;
use crate::exit::{Exit, Failure};
use crate::export::Target;
use crate::place::{JOB_FILE, PROJECT_FILE, Place};
use crate::shell::{baton, quoted};
use crate::style;
use crate::text::text;

/// The folder of the pages, unless the person names another.
const FOLDER: &str = "generated-docs";

/// The alias of a crate that `baton init --rust` created. Only the crate's own program knows its tools.
const CRATE_ALIAS: &str = "xtask = \"run --quiet --\"";

/// The most bytes of a page that is compared.
const MAX_PAGE_BYTES: u64 = 256 << 20;

/// Arguments of `docs`.
#[derive(Debug, Args)]
pub(crate) struct DocsArgs {
    /// Folder of a job or a project, or the name of a job [default: the job or project in this folder, else the project around it]
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath, add = complete::jobs())]
    folder: Option<PathBuf>,
    /// Write the pages into DIR [default: generated-docs in FOLDER]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Write nothing. Fail if a page is missing or out of date
    #[arg(long)]
    check: bool,
    /// Replace files of the same names that were not generated
    #[arg(long, conflicts_with = "check")]
    force: bool,
}

/// The state of a page's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// It was written.
    Written,
    /// It is up to date.
    Current,
    /// It does not exist.
    Missing,
    /// It was generated from other configs.
    Stale,
    /// It was not generated.
    Foreign,
}

/// Writes or checks the pages.
pub(crate) fn run(args: &DocsArgs, place: &Place) -> Result<Exit, Failure> {
    let folder = subject(args.folder.as_deref(), place)?;
    let inner = place.at(&folder)?;
    let home = Home::of(args, place, &inner.current);
    let pages = Pages::of(&inner, &home.header_command())?;
    let files: Vec<(PathBuf, String, Status)> = pages
        .files()
        .into_iter()
        .map(|(name, page)| {
            let file = home.inside.join(name);
            let status = status(&home.base.join(&file), &page);
            (file, page, status)
        })
        .collect();
    let reports = if args.check {
        files.iter().map(|(file, _, status)| (place.shown(&home.base.join(file)), *status)).collect()
    } else {
        write(&files, &home, args.force, place)?
    };
    report(&reports, &home.command(args), place)
}

/// Returns the folder of the job or project.
fn subject(named: Option<&Path>, place: &Place) -> Result<PathBuf, Failure> {
    let marks = |folder: &Path, files: &[&str]| files.iter().any(|file| folder.join(file).is_file());
    match named {
        Some(name) if marks(&place.current.join(name), &[PROJECT_FILE]) => Ok(place.current.join(name)),
        Some(name) => place.job_folder(name),
        None if marks(&place.current, &[PROJECT_FILE, JOB_FILE]) => Ok(place.current.clone()),
        None if marks(place.project(), &[PROJECT_FILE]) => Ok(place.project().to_owned()),
        None => Err(Failure::Usage("there is no job or project here; name one: baton docs FOLDER".to_owned())),
    }
}

/// Compares the file at `path` with its page.
fn status(path: &Path, page: &str) -> Status {
    match baton_files::read(path, MAX_PAGE_BYTES) {
        Ok(content) if content == page.as_bytes() => Status::Current,
        Ok(content) if is_generated(&content) => Status::Stale,
        Err(error) if error.kind() == ErrorKind::NotFound => Status::Missing,
        Ok(_) | Err(_) => Status::Foreign,
    }
}

/// Writes the files that are not current. Nothing is written if a file would be lost.
fn write(
    files: &[(PathBuf, String, Status)],
    home: &Home,
    is_forced: bool,
    place: &Place,
) -> Result<Vec<(String, Status)>, Failure> {
    let foreign = files.iter().find(|(_, _, status)| *status == Status::Foreign);
    if let Some((file, ..)) = foreign.filter(|_| !is_forced) {
        let file = place.shown(&home.base.join(file));
        return Err(Failure::Refused(format!("{file} was not generated; choose another --out, or --force to replace it")));
    }
    let target = Target::checked(home.base.clone(), true, place)?;
    let mut reports = Vec::new();
    for (index, (file, page, status)) in files.iter().enumerate() {
        let shown = place.shown(&home.base.join(file));
        if *status == Status::Current {
            reports.push((shown, *status));
            continue;
        }
        let written = target.write(&file.to_string_lossy(), page.as_bytes(), index);
        written.map_err(|error| Failure::File { path: shown.clone(), error })?;
        reports.push((shown, Status::Written));
    }
    Ok(reports)
}

/// Prints the states of the files. `command` repairs those that are not up to date.
fn report(files: &[(String, Status)], command: &str, place: &Place) -> Result<Exit, Failure> {
    let is_current = files.iter().all(|(_, status)| matches!(status, Status::Written | Status::Current));
    if place.screen.is_text() {
        for (file, status) in files {
            match status {
                Status::Written => place.screen.text(&text!("  wrote    {file}"))?,
                Status::Current => place.screen.text(&text!("  current  {file}"))?,
                Status::Missing => place.screen.tell(&text!("{} {file} is missing", style::bad("error:"))),
                Status::Stale => place.screen.tell(&text!("{} {file} is out of date", style::bad("error:"))),
                Status::Foreign => place.screen.tell(&text!("{} {file} was not generated", style::bad("error:"))),
            }
        }
        if !is_current {
            let force = if files.iter().any(|(_, status)| *status == Status::Foreign) { " --force" } else { "" };
            place.screen.tell(&text!("next:       {command}{force}"));
        }
    } else {
        let files: Vec<_> = files.iter().map(|(file, status)| json!({"file": file, "status": status})).collect();
        place.screen.json(&json!({"files": files, "command": command}))?;
    }
    Ok(if is_current { Exit::Done } else { Exit::Failed })
}

/// The folder of the pages.
struct Home {
    /// The folder of the job or project if the pages are in it, else their own folder.
    base: PathBuf,
    /// The folder of the pages in `base`. No link leads there, since it may have come with the job.
    inside: PathBuf,
    /// Whether the pages are outside of the job or project.
    is_outside: bool,
    /// Whether the folder belongs to a crate with its own program.
    is_crate: bool,
}

impl Home {
    fn of(args: &DocsArgs, place: &Place, folder: &Path) -> Self {
        let is_crate = crate::place::within_project(folder).any(is_crate);
        let out = args.out.as_ref().map(|out| place.current.join(out));
        let inside = match &out {
            None => Some(PathBuf::from(FOLDER)),
            Some(out) => out.strip_prefix(folder).ok().map(Path::to_owned),
        };
        let is_plain = |inside: &PathBuf| inside.components().all(|part| matches!(part, Component::Normal(_)));
        match (inside.filter(is_plain), out) {
            (None, Some(out)) => Self { base: out, inside: PathBuf::new(), is_outside: true, is_crate },
            (inside, _) => Self {
                base: folder.to_owned(),
                inside: inside.unwrap_or_else(|| PathBuf::from(FOLDER)),
                is_outside: false,
                is_crate,
            },
        }
    }

    /// Returns the command that a page names. It does not depend on the place from which it was written.
    fn header_command(&self) -> String {
        let inside = self.inside.display().to_string();
        let command = match quoted(&inside) {
            _ if self.is_outside => baton("docs").option("--out", "DIR"),
            _ if inside == FOLDER => baton("docs"),
            plain if plain == inside => baton("docs").option("--out", inside),
            _ if inside.is_empty() => baton("docs").option("--out", "."),
            _ => baton("docs").option("--out", "DIR"),
        };
        self.of_program(command.to_string())
    }

    /// Returns the command that the person may repeat.
    fn command(&self, args: &DocsArgs) -> String {
        let mut command = baton("docs");
        if let Some(folder) = &args.folder {
            command = command.value(folder.display());
        }
        if let Some(out) = &args.out {
            command = command.option("--out", out.display());
        }
        self.of_program(command.to_string())
    }

    fn of_program(&self, command: String) -> String {
        if self.is_crate { command.replacen("baton docs", "cargo xtask gen-docs", 1) } else { command }
    }
}

/// Whether `folder` is a crate whose `cargo xtask` starts its own program.
fn is_crate(folder: &Path) -> bool {
    let config = baton_files::read_start(&folder.join(".cargo/config.toml"), 1 << 16).unwrap_or_default();
    folder.join("Cargo.toml").is_file() && String::from_utf8_lossy(&config).lines().any(|line| line.trim() == CRATE_ALIAS)
}
