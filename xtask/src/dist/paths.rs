//! The folders of this machine that a program to distribute must not name.
//!
//! Panic messages name source files. Those of dependencies are in cargo's home, which names a person. The compilers replace both
//! folders by short names, and the built program is searched for what they missed.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::project::root;

/// A folder of this machine, and its name in the program.
pub(super) struct Replaced {
    folder: PathBuf,
    name: &'static str,
}

/// Returns the folders of this machine that a build replaces.
pub(super) fn replaced() -> anyhow::Result<[Replaced; 2]> {
    Ok([Replaced { folder: cargo_home()?, name: "/cargo" }, Replaced { folder: root().to_owned(), name: "/baton" }])
}

/// Returns the folder of cargo's registry and checkouts.
fn cargo_home() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let home = match home {
        Some(home) => home,
        None => std::env::home_dir().context("the home folder is unknown; set CARGO_HOME")?.join(".cargo"),
    };
    home.canonicalize().with_context(|| format!("{} cannot be read", home.display()))
}

/// Returns the flags of rustc.
pub(super) fn rust_flags(replaced: &[Replaced]) -> anyhow::Result<Vec<String>> {
    let flag = |Replaced { folder, name }: &Replaced| Ok(format!("--remap-path-prefix={}={name}", text(folder)?));
    replaced.iter().map(flag).collect()
}

/// Returns the flags of C compilers, after those of the person.
pub(super) fn c_flags(replaced: &[Replaced], own: &str) -> anyhow::Result<String> {
    let mut flags = vec![own.to_owned()];
    for Replaced { folder, name } in replaced {
        let folder = text(folder)?;
        if folder.contains(char::is_whitespace) {
            bail!("{folder} contains a space, which flags of C compilers cannot have; build in another folder");
        }
        flags.push(format!("-ffile-prefix-map={folder}={name}"));
    }
    Ok(flags.join(" ").trim().to_owned())
}

pub(super) fn text(folder: &Path) -> anyhow::Result<&str> {
    folder.to_str().with_context(|| format!("{} is not Unicode", folder.display()))
}

/// Returns the texts in `content` that begin with one of the folders, each once and up to its end.
pub(super) fn paths_in(content: &[u8], replaced: &[Replaced]) -> Vec<String> {
    let mut found = Vec::new();
    for Replaced { folder, .. } in replaced {
        let folder = folder.as_os_str().as_encoded_bytes();
        // Without the separator, /work would also match /workspace.
        let needle = [folder, b"/"].concat();
        let mut from = 0;
        while let Some(at) = content[from..].windows(needle.len()).position(|window| window == needle) {
            let start = from + at;
            let path = content[start..].iter().take_while(|byte| byte.is_ascii_graphic()).take(200);
            found.push(path.map(|byte| char::from(*byte)).collect::<String>());
            from = start + needle.len();
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders() -> [Replaced; 2] {
        [
            Replaced { folder: PathBuf::from("/home/ann/.cargo"), name: "/cargo" },
            Replaced { folder: PathBuf::from("/work/baton"), name: "/baton" },
        ]
    }

    #[test]
    fn compilers_replace_both_folders() {
        let flags = rust_flags(&folders()).expect("flags");
        let expected = ["--remap-path-prefix=/home/ann/.cargo=/cargo", "--remap-path-prefix=/work/baton=/baton"];
        assert_eq!(flags, expected);
        let expected = "-g0 -ffile-prefix-map=/home/ann/.cargo=/cargo -ffile-prefix-map=/work/baton=/baton";
        assert_eq!(c_flags(&folders(), "-g0").expect("flags"), expected);
        let spaced = [Replaced { folder: PathBuf::from("/my work"), name: "/baton" }];
        assert!(c_flags(&spaced, "").is_err(), "C compilers would read two flags");
    }

    #[test]
    fn paths_of_this_machine_are_found_in_a_program() {
        let program = b"\x7fELF\0/cargo/registry/a.rs\0/home/ann/.cargo/registry/b.rs\0/work/baton2/c.rs\0/work/baton/d.rs\x01/work/baton/d.rs";
        assert_eq!(paths_in(program, &folders()), ["/home/ann/.cargo/registry/b.rs", "/work/baton/d.rs"]);
        assert!(paths_in(b"/cargo/a.rs /baton/b.rs", &folders()).is_empty());
    }
}
