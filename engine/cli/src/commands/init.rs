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
}

/// Creates the project or the crate.
pub(crate) fn run(args: &InitArgs, place: &Place) -> Result<Exit, Failure> {
    let (written, next) = match &args.rust {
        Some(name) => (crate_files(name, place)?.write(place)?, crate_next(name)),
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

fn crate_files(name: &str, place: &Place) -> Result<Scaffold, Failure> {
    let folder = PathBuf::from(name);
    let package = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    scaffold::check_id("a crate", &package, 64)?;
    let mut files = Scaffold::new(place.current.join(&folder));
    let baton = dependency();
    files.add_template(embedded::CRATE, |text| text.replace("__NAME__", &package).replace("__BATON__", &baton));
    // The dependency versions with which this program was built and tested.
    if let Some(lock) = checkout().and_then(|checkout| std::fs::read_to_string(checkout.join("../../Cargo.lock")).ok()) {
        files.add("Cargo.lock", lock);
    }
    add_schemas(&mut files);
    Ok(files)
}

fn crate_next(name: &str) -> Vec<String> {
    vec![
        format!("cd {name}"),
        "cargo run -- tool call vowel_count --text hello".to_owned(),
        "cargo run -- run count".to_owned(),
        "cargo run -- new tool word_count".to_owned(),
    ]
}

fn add_schemas(files: &mut Scaffold) {
    for (name, text) in embedded::SCHEMAS {
        files.add(Path::new("schemas").join(name), *text);
    }
}

/// Returns the source folder of this program, if it still exists.
fn checkout() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.join("Cargo.toml").is_file().then_some(folder)
}

/// Returns the crate's dependency on this package, as the value in `Cargo.toml`.
fn dependency() -> String {
    match checkout() {
        Some(folder) => format!("{{ path = {:?} }}", folder.display().to_string()),
        None => format!("{:?}", env!("CARGO_PKG_VERSION")),
    }
}
