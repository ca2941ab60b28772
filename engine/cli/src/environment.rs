//! Settings outside of the command line and the job: the environment, the project's `.env`, and the person's own models and
//! prices.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use baton_config::PriceTable;
use baton_models::provider::Profile;
use baton_runtime::folder::MODELS_FILE;
use baton_types::config::{ProviderSettings, Reach};

use crate::exit::Failure;
use crate::place::Place;
use crate::variables;

/// The file of a project for values that must not be in a config, such as API keys.
const ENV_FILE: &str = ".env";
/// The file of a person with the prices of models.
const PRICES_FILE: &str = "prices.json";
/// The largest size of a `.env` file in bytes.
const MAX_ENV_BYTES: u64 = 1 << 20;

/// The environment. For a variable that it does not set, the project's `.env` is used, as far as the person trusts that file.
#[derive(Debug)]
pub(crate) struct Environment {
    file: PathBuf,
    of_file: HashMap<String, String>,
    released: Mutex<BTreeSet<String>>,
}

impl Environment {
    /// Reads the environment at `place`. No variable of its `.env` is trusted yet.
    pub(crate) fn at(place: &Place) -> Result<Arc<Self>, Failure> {
        let file = place.project().join(ENV_FILE);
        let of_file = read(&file)?;
        Ok(Arc::new(Self { file, of_file, released: Mutex::default() }))
    }

    /// Returns the path of the project's `.env`.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the value of `name`: from the process's environment, or else from the file if the variable is released.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let of_file = || {
            let released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
            released.contains(name).then(|| self.of_file.get(name).cloned()).flatten()
        };
        std::env::var(name).ok().or_else(of_file)
    }

    /// Releases the file's variables `names`, so that [`Self::get`] returns them.
    pub(crate) fn release(&self, names: &BTreeSet<String>) {
        self.released.lock().unwrap_or_else(PoisonError::into_inner).extend(names.iter().cloned());
    }

    /// Returns true if only the file sets a variable with the provider's address or key.
    pub(crate) fn leads_to(&self, provider: &str, settings: Option<&ProviderSettings>) -> bool {
        let profile = Profile::named(settings.map_or(provider, |settings| settings.like.as_str()));
        let names = profile.into_iter().flat_map(|profile| [Some(profile.key.variable), profile.base_url_variable]).flatten();
        let own = settings.and_then(|settings| settings.key_variable.as_deref());
        !self.reaches(&names.chain(own).map(str::to_owned).collect(), |_| true).is_empty()
    }

    /// Returns a reach for each of `names` that only the file sets. The values of keys are not shown.
    pub(crate) fn reaches(&self, names: &BTreeSet<String>, is_key: impl Fn(&str) -> bool) -> Vec<Reach> {
        let alone = names.iter().filter(|name| std::env::var_os(name).is_none());
        alone.filter_map(|name| Some(variables::variable(ENV_FILE, name, self.of_file.get(name)?, is_key(name)))).collect()
    }
}

/// Reads the variables of a `.env` file; none if there is no file. Error messages never quote the file.
fn read(file: &Path) -> Result<HashMap<String, String>, Failure> {
    // Some projects have a folder of that name, which does not concern Baton.
    if !baton_files::is_there(file) || std::fs::symlink_metadata(file).is_ok_and(|facts| facts.is_dir()) {
        return Ok(HashMap::new());
    }
    let content = baton_files::read(file, MAX_ENV_BYTES).map_err(|error| Failure::file(file, error))?;
    let broken = || Failure::Usage(format!("{}: a line is not NAME=VALUE", file.display()));
    let content = String::from_utf8(content).map_err(|_| broken())?;
    // The parser would replace `$NAME` with a variable of the person's environment, so it must not see any dollar sign.
    let dollar = ('\u{e000}'..='\u{f8ff}').find(|letter| !content.contains(*letter)).ok_or_else(broken)?;
    let literal = without_dollars(&content, dollar).map_err(|(line, column)| {
        Failure::Usage(format!(
            "{}:{line}:{column}: no variables are expanded in this file; write \\$ for a dollar, or put the value in single quotes",
            file.display()
        ))
    })?;
    let variables = dotenvy::from_read_iter(literal.as_bytes()).collect::<Result<Vec<_>, _>>().map_err(|_| broken())?;
    Ok(variables.into_iter().map(|(name, value)| (name, value.replace(dollar, "$"))).collect())
}

/// Returns the text of a `.env` with `stand_in` for each dollar that is escaped or in single quotes. Any other dollar outside a
/// comment is an error: its line and column.
fn without_dollars(content: &str, stand_in: char) -> Result<String, (usize, usize)> {
    let (mut literal, mut line, mut column) = (String::with_capacity(content.len()), 1, 0);
    let (mut quote, mut is_comment, mut before) = (None, false, '\n');
    let mut letters = content.chars().peekable();
    while let Some(letter) = letters.next() {
        column += 1;
        let begins_comment = quote.is_none() && letter == '#' && before.is_whitespace();
        is_comment = (is_comment || begins_comment) && letter != '\n';
        before = letter;
        match letter {
            '$' if is_comment || quote == Some('\'') => literal.push(stand_in),
            '$' => return Err((line, column)),
            '\\' if !is_comment && quote != Some('\'') => {
                let escaped = letters.next_if(|next| *next != '\n');
                column += usize::from(escaped.is_some());
                match escaped {
                    Some('$') => literal.push(stand_in),
                    escaped => literal.extend([Some(letter), escaped].into_iter().flatten()),
                }
                before = '\\';
            }
            '\'' | '"' if !is_comment => {
                quote = match quote {
                    None => Some(letter),
                    Some(open) => Some(open).filter(|open| *open != letter),
                };
                literal.push(letter);
            }
            letter => {
                literal.push(letter);
                if letter == '\n' {
                    (line, column) = (line + 1, 0);
                }
            }
        }
    }
    Ok(literal)
}

/// Reads the person's own `models.json`, if there is one. Returns its path for messages, and its content.
pub(crate) fn user_models() -> Result<Option<(String, Vec<u8>)>, Failure> {
    user_file(MODELS_FILE)
}

/// Reads the person's own `prices.json`, if there is one. Its rows extend or replace those of the built-in table.
pub(crate) fn user_prices() -> Result<Option<PriceTable>, Failure> {
    let Some((path, content)) = user_file(PRICES_FILE)? else { return Ok(None) };
    PriceTable::load(&path, &content).map(Some).map_err(|faults| Failure::Faults(faults.to_string()))
}

/// Reads a file of the person's own configuration folder. Returns its path for messages, and its content.
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

    #[test]
    fn no_variable_is_expanded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(ENV_FILE);
        let written = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read(&file)
        };
        let text = "# costs $5, isn't it\nA='$PATH ${HOME}' # or $6\nB=a\\$PATH\nC=\"it's \\${HOME}\"\nE=x#y\n";
        let expected = [("A", "$PATH ${HOME}"), ("B", "a$PATH"), ("C", "it's ${HOME}"), ("E", "x#y")];
        let expected: HashMap<String, String> =
            expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(written(text).unwrap(), expected);
        for (text, place) in [
            ("OLLAMA_HOST=http://127.0.0.1:1/${PATH}\n", ":1:32: "),
            ("A=1\nB=\"x $PATH\"\n", ":2:6: "),
            ("A=\"x\n# $PATH\"\n", ":2:3: "),
            ("A=x\\\\$PATH\n", ":1:6: "),
            ("A=x#$PATH\n", ":1:5: "),
            ("A='x'$PATH\n", ":1:6: "),
        ] {
            let shown = written(text).unwrap_err().shown();
            assert!(shown.as_str().contains(&format!(".env{place}no variables are expanded")), "{text:?}: {shown:?}");
        }
        // Even where this code and the parser disagree about quotes, the parser sees no dollar.
        let path = std::env::var("PATH").unwrap();
        for text in ["A='x\\'$PATH''\n'\n", "A='\n'$PATH\n", "A=\\\n'$PATH'\n", "A=x 'b' '$PATH'\n", "A=# '\nB='$PATH'\n"] {
            assert!(written(text).is_err() || written(text).unwrap().values().all(|value| !value.contains(&path)), "{text:?}");
        }
    }
}
