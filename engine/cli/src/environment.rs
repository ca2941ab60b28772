//! What the program knows beside its arguments: the environment, the project's `.env`, and the person's own models and prices.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::config::{PriceTable, ProviderSettings, Reach};
use baton_models::provider::Profile;
use baton_runtime::folder::MODELS_FILE;

use crate::exit::Failure;
use crate::place::Place;
use crate::trust;

/// The file of a project that holds what no config may hold.
const ENV_FILE: &str = ".env";
/// The file of a person that says what models cost.
const PRICES_FILE: &str = "prices.json";
/// The most bytes of a `.env`.
const MAX_ENV_BYTES: u64 = 1 << 20;

/// The environment, and where it does not have a variable, the project's `.env`, as far as the person trusts it.
#[derive(Debug)]
pub(crate) struct Environment {
    file: PathBuf,
    of_file: HashMap<String, String>,
    released: Mutex<BTreeSet<String>>,
}

impl Environment {
    /// The environment at `place`. Nothing of its `.env` is trusted yet.
    pub(crate) fn at(place: &Place) -> Result<Arc<Self>, Failure> {
        let file = place.project().join(ENV_FILE);
        let of_file = read(&file)?;
        Ok(Arc::new(Self { file, of_file, released: Mutex::default() }))
    }

    /// The project's `.env`.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// The value of `name`: the process's own, else that of the file where it was released.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let of_file = || {
            let released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
            released.contains(name).then(|| self.of_file.get(name).cloned()).flatten()
        };
        std::env::var(name).ok().or_else(of_file)
    }

    /// Lets the variables `names` of the file be read.
    pub(crate) fn release(&self, names: &BTreeSet<String>) {
        self.released.lock().unwrap_or_else(PoisonError::into_inner).extend(names.iter().cloned());
    }

    /// Whether the file alone sets a variable that leads to a provider: its address, or its key.
    pub(crate) fn leads_to(&self, provider: &str, settings: Option<&ProviderSettings>) -> bool {
        let profile = Profile::named(settings.map_or(provider, |settings| settings.like.as_str()));
        let names = profile.into_iter().flat_map(|profile| [Some(profile.key.variable), profile.base_url_variable]).flatten();
        let own = settings.and_then(|settings| settings.key_variable.as_deref());
        !self.reaches(&names.chain(own).map(str::to_owned).collect()).is_empty()
    }

    /// Those of `names` that the file alone sets.
    pub(crate) fn reaches(&self, names: &BTreeSet<String>) -> Vec<Reach> {
        let alone = names.iter().filter(|name| std::env::var_os(name).is_none());
        alone.filter_map(|name| Some(trust::variable(ENV_FILE, name, self.of_file.get(name)?))).collect()
    }
}

/// The variables of a `.env` file; none if there is no file. What is wrong with it is told without a word of it.
fn read(file: &Path) -> Result<HashMap<String, String>, Failure> {
    // Some keep a folder of that name, which has nothing to do with us.
    if !baton_files::is_there(file) || std::fs::symlink_metadata(file).is_ok_and(|facts| facts.is_dir()) {
        return Ok(HashMap::new());
    }
    let content = baton_files::read(file, MAX_ENV_BYTES).map_err(|error| Failure::file(file, error))?;
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
