//! Environment variables that need trust: which of them hold keys, and how their values are shown.

use baton_types::config::{Origin, Reach, Target};
use baton_types::id::ContentHash;

/// Returns the reach of a variable that `file` sets. Its value is shown, because many variables are commands (`BASH_ENV`,
/// `GIT_SSH_COMMAND`). Only the values of keys are hidden.
pub(crate) fn variable(file: &str, name: &str, value: &str, is_key: bool) -> Reach {
    let shown = if is_key { "a value that is not shown".to_owned() } else { format!("{:?}", without_password(name, value)) };
    let target = Target::Variable { name: name.to_owned(), shown, hash: ContentHash::of(value.as_bytes()) };
    Reach { holder: file.to_owned(), target, origin: Origin::Job }
}

/// Words in the names of keys; and words of variables that name a program, even if they also have a word of a key.
const KEY_WORDS: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"];
const PROGRAM_WORDS: [&str; 9] = ["COMMAND", "CMD", "PROGRAM", "HELPER", "PROVIDER", "ALIAS", "CONFIG", "ASKPASS", "HOOK"];

/// Returns true if the variable `name` holds a key: by its name, or because `reaches` send it as one and no command sees it.
pub(crate) fn is_key(name: &str, reaches: &[Reach]) -> bool {
    if is_address(name) || ["PATH", "LANG"].contains(&name) {
        return false;
    }
    let upper = name.to_uppercase();
    let has_word = |known: &[&str]| {
        let singular = |word: &str| known.iter().any(|known| word.strip_suffix('S').unwrap_or(word).ends_with(known));
        upper.split('_').any(singular)
    };
    let is_seen = |reach: &Reach| matches!(&reach.target, Target::Environment(seen) if seen == name);
    let is_sent = |reach: &Reach| match &reach.target {
        Target::Address { key_variable, .. } => key_variable.as_deref() == Some(name),
        Target::Secret(variable) => variable == name,
        _ => false,
    };
    (has_word(&KEY_WORDS) && !has_word(&PROGRAM_WORDS)) || (reaches.iter().any(is_sent) && !reaches.iter().any(is_seen))
}

/// Returns true if the variable `name` holds an address.
fn is_address(name: &str) -> bool {
    ["_URL", "_URI", "_HOST", "_DSN"].iter().any(|end| name.ends_with(end))
}

/// Returns the value of a variable. The password of an address is hidden, because it does not affect where the address leads.
fn without_password(name: &str, value: &str) -> String {
    let shown = || {
        let (scheme, rest) = value.split_once("://").filter(|_| is_address(name))?;
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
        let (user, host) = authority.rsplit_once('@')?;
        let (user, _password) = user.split_once(':')?;
        Some(format!("{scheme}://{user}:…@{host}{path}"))
    };
    shown().unwrap_or_else(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_are_not_shown() {
        let reach = |target| Reach { holder: "x".to_owned(), target, origin: Origin::Job };
        let sent = |name: &str| reach(Target::Secret(name.to_owned()));
        let seen = |name: &str| reach(Target::Environment(name.to_owned()));
        for name in ["OPENAI_API_KEY", "MYTOKEN", "AWS_SECRET_ACCESS_KEY", "github_token", "DB_PASSWORD", "API_KEYS", "TOKEN_2"] {
            assert!(is_key(name, &[seen(name)]), "{name}");
        }
        let shown =
            ["BASH_ENV", "GIT_SSH_COMMAND", "LD_PRELOAD", "PATH", "GIT_CONFIG_KEY_0", "CARGO_REGISTRY_CREDENTIAL_PROVIDER"];
        for name in shown {
            assert!(!is_key(name, &[seen(name), sent(name)]), "{name}");
        }
        assert!(is_key("MINE", &[sent("MINE")]) && !is_key("OLLAMA_HOST", &[sent("OLLAMA_HOST")]));
    }

    #[test]
    fn values_are_shown_whole_and_escaped() {
        let shown = |name: &str, value: &str| variable(".env", name, value, is_key(name, &[])).to_string();
        let code = shown("BASH_ENV", "/tmp/x\u{1b}[2K://a:$(touch pwned)@y");
        assert!(
            code.starts_with(r#".env sets the variable "BASH_ENV" to "/tmp/x\u{1b}[2K://a:$(touch pwned)@y" (blake3 "#),
            "{code}"
        );
        let address = shown("DATABASE_URL", "postgres://me:pass@word@db.example/x?y");
        assert!(address.contains(r#"to "postgres://me:…@db.example/x?y""#), "{address}");
        assert!(shown("X_TOKEN", "hidden").contains("a value that is not shown"));
    }
}
