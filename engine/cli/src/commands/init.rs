//! `baton init`: creates a project with a job that runs at once, or a crate with its own tool.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::embedded;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::scaffold::{self, Scaffold};
use crate::shell::quoted;

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Folder of the project. It is created if it does not exist
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Create a Rust crate of this name instead. It builds a Baton program with your own tools
    #[arg(long, value_name = "NAME", conflicts_with = "dir")]
    rust: Option<String>,
    /// Folder with the source code of Baton that the crate depends on [default: the revision or version of this program]
    #[arg(long, value_name = "DIR", requires = "rust", value_hint = ValueHint::DirPath)]
    source: Option<PathBuf>,
    /// Address of the git repository with the source code of Baton that the crate depends on
    #[arg(long, value_name = "URL", requires = "rust", conflicts_with = "source", value_hint = ValueHint::Url)]
    git: Option<String>,
    /// Revision in the repository of --git [default: the one that this program was built from]
    #[arg(long, value_name = "REVISION", requires = "git")]
    rev: Option<String>,
}

/// Creates the project or the crate.
pub(crate) fn run(args: &InitArgs, place: &Place) -> Result<Exit, Failure> {
    let (written, next) = match &args.rust {
        Some(name) => {
            let dependency = Dependency::of(args, &Built::THIS, place)?;
            (crate_files(name, &dependency, place)?.write(place)?, crate_next(name, &dependency))
        }
        None => (project_files(place, &args.dir).write(place)?, project_next(&args.dir)),
    };
    scaffold::report(place, &written, &next)?;
    Ok(Exit::Done)
}

fn project_files(place: &Place, dir: &Path) -> Scaffold {
    let mut files = Scaffold::new(place.current.join(dir));
    files.add_template(embedded::PROJECT, str::to_owned);
    add_schemas(&mut files);
    files.keep_existing(".gitignore");
    files
}

fn project_next(dir: &Path) -> Vec<String> {
    let run = "baton run sales   (no key needed: the model is scripted)".to_owned();
    if dir == Path::new(".") { vec![run] } else { vec![format!("cd {}", quoted(&dir.to_string_lossy())), run] }
}

/// A folder with the source code of Baton.
struct Checkout(PathBuf);

impl Checkout {
    fn at(folder: &Path) -> Result<Self, Failure> {
        let package = folder.join(PACKAGE);
        if !package.join("Cargo.toml").is_file() {
            return Err(Failure::Usage(format!(
                "{} has no {PACKAGE}/Cargo.toml; name the folder of Baton's source code, such as a clone of its repository",
                folder.display()
            )));
        }
        folder.canonicalize().map(Self).map_err(|error| Failure::file(folder, error))
    }
}

/// The folder of this package in its repository.
const PACKAGE: &str = "engine/cli";

/// Facts about a program.
struct Built {
    version: &'static str,
    /// The address of its repository.
    repository: &'static str,
    /// The revision of the repository, if it was built from one.
    revision: &'static str,
}

impl Built {
    const THIS: Self =
        Self { version: env!("CARGO_PKG_VERSION"), repository: env!("CARGO_PKG_REPOSITORY"), revision: env!("BATON_REVISION") };
}

/// The dependency of a new crate on Baton. It never names the folder that this program was built in: that folder is on another
/// machine, or gone.
enum Dependency {
    Checkout(Checkout),
    Revision { address: String, revision: String },
    Version(&'static str),
}

impl Dependency {
    fn of(args: &InitArgs, built: &Built, place: &Place) -> Result<Self, Failure> {
        if let Some(folder) = &args.source {
            return Checkout::at(&place.current.join(folder)).map(Self::Checkout);
        }
        let address = args.git.as_deref().or(Some(built.repository).filter(|address| !address.is_empty()));
        let revision = args.rev.as_deref().or(Some(built.revision).filter(|revision| !revision.is_empty()));
        match (address, revision) {
            (Some(address), Some(revision)) => {
                if let Some(wrong) = [address, revision].into_iter().find(|text| !is_plain(text)) {
                    return Err(Failure::Usage(format!("{wrong:?} cannot be the address or the revision of a repository")));
                }
                Ok(Self::Revision { address: address.to_owned(), revision: revision.to_owned() })
            }
            (Some(_), None) if args.git.is_some() => {
                let message = "this program was not built from a repository, so it has no revision; add --rev REVISION";
                Err(Failure::Usage(message.to_owned()))
            }
            _ => Ok(Self::Version(built.version)),
        }
    }

    /// Returns the dependency as a manifest has it.
    fn manifest(&self) -> String {
        match self {
            Self::Checkout(Checkout(folder)) => format!("{{ path = {:?} }}", folder.join(PACKAGE).display().to_string()),
            Self::Revision { address, revision } => format!("{{ git = {address:?}, rev = {revision:?} }}"),
            Self::Version(version) => format!("{version:?}"),
        }
    }
}

/// Whether a string of TOML holds `text` as it is.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|character| character.is_ascii_graphic() && !"\"\\".contains(character))
}

fn crate_files(name: &str, dependency: &Dependency, place: &Place) -> Result<Scaffold, Failure> {
    let folder = PathBuf::from(name);
    let package = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    scaffold::check_id("a crate", &package, 64)?;
    let mut files = Scaffold::new(place.current.join(&folder));
    let baton = dependency.manifest();
    files.add_template(embedded::CRATE, |text| text.replace("__NAME__", &package).replace("__BATON__", &baton));
    // The dependency versions with which that source code was tested.
    if let Dependency::Checkout(Checkout(folder)) = dependency
        && let Ok(lock) = std::fs::read_to_string(folder.join("Cargo.lock"))
    {
        files.add("Cargo.lock", lock);
    }
    add_schemas(&mut files);
    Ok(files)
}

fn crate_next(name: &str, dependency: &Dependency) -> Vec<String> {
    let until_published = match dependency {
        Dependency::Version(version) => {
            Some(format!("until version {version} is published: name a checkout or a git revision in {name}/Cargo.toml"))
        }
        Dependency::Checkout(_) | Dependency::Revision { .. } => None,
    };
    let mut next: Vec<String> = until_published.into_iter().collect();
    next.extend([
        format!("cd {name}"),
        "cargo run -- tool call vowel_count --text hello".to_owned(),
        "cargo run -- run count".to_owned(),
        "cargo run -- new tool word_count".to_owned(),
        "cargo xtask gen-docs".to_owned(),
    ]);
    next
}

fn add_schemas(files: &mut Scaffold) {
    for (name, text) in embedded::SCHEMAS {
        files.add(Path::new("schemas").join(name), *text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Output, Screen};

    fn manifest(built: &Built, git: Option<&str>, rev: Option<&str>) -> Result<String, String> {
        let screen = Screen { output: Output::Text, interactive: false, live: false, quiet: true, verbose: false };
        let place = Place::here(screen, None, None).unwrap();
        let (git, rev) = (git.map(str::to_owned), rev.map(str::to_owned));
        let args = InitArgs { dir: PathBuf::from("."), rust: Some("mytools".to_owned()), source: None, git, rev };
        Dependency::of(&args, built, &place).map(|dependency| dependency.manifest()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_crate_depends_on_the_revision_or_the_version_of_the_program() {
        let released = Built { version: "1.2.3", repository: "https://example.org/baton", revision: "" };
        let of_checkout = Built { revision: "0a1b2c", ..released };
        let unknown = Built { repository: "", ..of_checkout };
        assert_eq!(manifest(&released, None, None).unwrap(), "\"1.2.3\"");
        assert_eq!(manifest(&unknown, None, None).unwrap(), "\"1.2.3\"");
        let revision = |address: &str, revision: &str| format!("{{ git = {address:?}, rev = {revision:?} }}");
        assert_eq!(manifest(&of_checkout, None, None).unwrap(), revision("https://example.org/baton", "0a1b2c"));
        assert_eq!(manifest(&unknown, Some("ssh://host/b"), None).unwrap(), revision("ssh://host/b", "0a1b2c"));
        assert_eq!(manifest(&of_checkout, Some("ssh://host/b"), Some("v1")).unwrap(), revision("ssh://host/b", "v1"));
        assert!(manifest(&released, Some("ssh://host/b"), None).unwrap_err().contains("--rev"));
        assert!(manifest(&unknown, Some("a\", path = \"/"), None).unwrap_err().contains("cannot be"));
    }
}
