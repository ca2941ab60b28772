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
    /// Folder with the source code of Baton that the crate depends on [default: the published version]
    #[arg(long, value_name = "DIR", requires = "rust", value_hint = ValueHint::DirPath)]
    source: Option<PathBuf>,
}

/// Creates the project or the crate.
pub(crate) fn run(args: &InitArgs, place: &Place) -> Result<Exit, Failure> {
    let (written, next) = match &args.rust {
        Some(name) => {
            let source = args.source.as_deref().map(|source| Checkout::at(&place.current.join(source))).transpose()?;
            (crate_files(name, source.as_ref(), place)?.write(place)?, crate_next(name, source.is_some()))
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

fn crate_files(name: &str, source: Option<&Checkout>, place: &Place) -> Result<Scaffold, Failure> {
    let folder = PathBuf::from(name);
    let package = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    scaffold::check_id("a crate", &package, 64)?;
    let mut files = Scaffold::new(place.current.join(&folder));
    // Never the folder that this program was built in: it is on another machine, or gone.
    let baton = match source {
        Some(Checkout(folder)) => format!("{{ path = {:?} }}", folder.join(PACKAGE).display().to_string()),
        None => format!("{:?}", env!("CARGO_PKG_VERSION")),
    };
    files.add_template(embedded::CRATE, |text| text.replace("__NAME__", &package).replace("__BATON__", &baton));
    // The dependency versions with which that source code was tested.
    if let Some(lock) = source.and_then(|Checkout(folder)| std::fs::read_to_string(folder.join("Cargo.lock")).ok()) {
        files.add("Cargo.lock", lock);
    }
    add_schemas(&mut files);
    Ok(files)
}

fn crate_next(name: &str, has_source: bool) -> Vec<String> {
    let until_published = (!has_source).then(|| {
        format!(
            "until version {} is published: name a checkout or a git revision in {name}/Cargo.toml",
            env!("CARGO_PKG_VERSION")
        )
    });
    let mut next: Vec<String> = until_published.into_iter().collect();
    next.extend([
        format!("cd {name}"),
        "cargo run -- tool call vowel_count --text hello".to_owned(),
        "cargo run -- run count".to_owned(),
        "cargo run -- new tool word_count".to_owned(),
    ]);
    next
}

fn add_schemas(files: &mut Scaffold) {
    for (name, text) in embedded::SCHEMAS {
        files.add(Path::new("schemas").join(name), *text);
    }
}
