//! What the program knows beside its arguments: the environment, the project's `.env`, and the person's own models and prices.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use baton_core::config::PriceTable;
use baton_runtime::folder::MODELS_FILE;

use crate::exit::Failure;
use crate::place::Place;

/// The file of a project that holds what no config may hold.
const ENV_FILE: &str = ".env";
/// The file of a person that says what models cost.
const PRICES_FILE: &str = "prices.json";

/// The environment, and where it does not have a variable, the project's `.env`.
pub(crate) fn variables(place: &Place) -> Result<impl Fn(&str) -> Option<String> + Send + Sync + use<>, Failure> {
    let file = read(&place.project().join(ENV_FILE))?;
    Ok(move |name: &str| std::env::var(name).ok().or_else(|| file.get(name).cloned()))
}

/// The variables of a `.env` file; none if there is no file. What is wrong with it is told without a word of it.
fn read(file: &Path) -> Result<HashMap<String, String>, Failure> {
    if !file.is_file() {
        return Ok(HashMap::new());
    }
    let content = std::fs::read(file).map_err(|error| Failure::file(file, error))?;
    dotenvy::from_read_iter(content.as_slice())
        .collect::<Result<_, _>>()
        .map_err(|_| Failure::Usage(format!("{}: a line of it is not NAME=VALUE", file.display())))
}

/// The person's own `models.json`, if there is one: its path as messages show it, and what it says.
pub(crate) fn user_models() -> Result<Option<(String, Vec<u8>)>, Failure> {
    user_file(MODELS_FILE)
}

/// The person's own `prices.json`, if there is one: rows that stand beside the program's table, or in place of its own.
pub(crate) fn user_prices() -> Result<Option<PriceTable>, Failure> {
    let Some((path, content)) = user_file(PRICES_FILE)? else { return Ok(None) };
    PriceTable::load(&path, &content).map(Some).map_err(|faults| Failure::Faults(faults.to_string()))
}

/// A file of the person's own: its path as messages show it, and what it says.
fn user_file(name: &str) -> Result<Option<(String, Vec<u8>)>, Failure> {
    let folder = |variable: &str| std::env::var_os(variable).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let Some(config) = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config"))) else { return Ok(None) };
    let file = config.join("baton").join(name);
    if !file.is_file() {
        return Ok(None);
    }
    let content = std::fs::read(&file).map_err(|error| Failure::file(&file, error))?;
    Ok(Some((file.display().to_string(), content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_line_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(ENV_FILE);
        assert!(read(&file).unwrap().is_empty());
        std::fs::write(&file, "# keys\nexport A='x y'\nB=\"z\"\n").unwrap();
        assert_eq!(read(&file).unwrap(), HashMap::from([("A".to_owned(), "x y".to_owned()), ("B".to_owned(), "z".to_owned())]));
        std::fs::write(&file, "sk-a-key-alone on a line\n").unwrap();
        let shown = read(&file).unwrap_err().shown();
        assert!(shown.as_str().contains(".env") && !shown.as_str().contains("sk-"), "{shown:?}");
    }
}
