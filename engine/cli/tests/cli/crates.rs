//! `init --rust`: a crate with its own tools, outside this workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Folder, Ran};

/// A new crate outside this workspace.
struct NewCrate {
    home: PathBuf,
    /// The libraries of this workspace's build.
    libraries: PathBuf,
    /// Baton among them.
    baton: PathBuf,
    /// The library `serde` that Baton was built with.
    serde: PathBuf,
}

impl NewCrate {
    /// Returns the crate in `home`, built with the libraries of this workspace's build: cargo would build all of them anew, with the
    /// features that this crate needs, for several minutes.
    fn built(home: PathBuf) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_baton"));
        let libraries = program.parent().expect("the program lies in target/<profile>").join("deps");
        // Builds with other features may have left others; the newest one is the one of this build.
        let baton = built_as("libbaton-", &libraries).into_iter().next().expect("the library of this program is built");
        let mut tried: Vec<String> = Vec::new();
        for serde in built_as("libserde-", &libraries) {
            let candidate = Self { home: home.clone(), libraries: libraries.clone(), baton: baton.clone(), serde };
            let ran = candidate.build();
            if ran.code == 0 {
                return candidate;
            }
            tried.push(ran.stderr);
        }
        panic!("the crate does not compile: {}", tried.join("\n"));
    }

    /// Compiles the crate as cargo does for its manifest.
    fn build(&self) -> Ran {
        let mut command = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"));
        command.args(["--edition", "2024", "--crate-name", "mytools", "src/main.rs", "-o", "mytools"]);
        command.arg("-L").arg(format!("dependency={}", self.libraries.display()));
        command.arg("--extern").arg(format!("baton={}", self.baton.display()));
        command.arg("--extern").arg(format!("serde={}", self.serde.display()));
        command.current_dir(&self.home).env("CARGO_MANIFEST_DIR", &self.home).env("CARGO_PKG_NAME", "mytools");
        Ran::from(command.output().unwrap())
    }

    /// Runs the program of the crate.
    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(Command::new(self.home.join("mytools")).current_dir(&self.home).args(arguments).output().unwrap())
    }
}

/// Returns the libraries in `folder` whose names begin with `prefix`, newest first.
fn built_as(prefix: &str, folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_meant = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(prefix) && path.extension().is_some_and(|extension| extension == "rlib")
    };
    let mut found: Vec<PathBuf> = files.filter(is_meant).collect();
    found.sort_by_key(|path| std::cmp::Reverse(path.metadata().and_then(|metadata| metadata.modified()).unwrap()));
    found
}

/// Runs cargo in the crate, offline.
fn cargo(crate_folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(crate_folder).args(arguments).env("CARGO_NET_OFFLINE", "true");
    for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "RUSTFLAGS", "RUSTC_WRAPPER", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    Ran::from(command.output().unwrap())
}

/// A call of the tool `word_count`.
const CALL: [&str; 5] = ["tool", "call", "word_count", "--input", r#"{"text":"a b"}"#];

#[test]
fn a_new_crate_depends_on_a_version_and_on_no_folder_of_another_machine() {
    let folder = Folder::new();
    let ran = folder.baton(&["init", "--rust", "mytools"]).exits(0).tells("until version");
    let manifest = folder.read("mytools/Cargo.toml");
    let dependency = manifest.lines().find(|line| line.starts_with("baton = ")).unwrap();
    assert_eq!(dependency, format!("baton = {:?}", env!("CARGO_PKG_VERSION")));
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_str().unwrap();
    assert!(!manifest.contains(built_in) && !ran.stderr.contains(built_in), "{manifest}");
    let revision = ["init", "--rust", "revised", "--git", "https://example.org/baton", "--rev", "0a1b2c"];
    folder.baton(&revision).exits(0);
    let expected = "\nbaton = { git = \"https://example.org/baton\", rev = \"0a1b2c\" }\n";
    assert!(folder.read("revised/Cargo.toml").contains(expected), "{}", folder.read("revised/Cargo.toml"));
    assert!(!folder.path().join("mytools/Cargo.lock").exists(), "the lock of another folder's packages is of no use");
    folder.baton(&["init", "--rust", "other", "--source", "mytools"]).exits(2).tells("mytools has no engine/cli/Cargo.toml");
    assert!(!folder.path().join("other").exists());
}

/// Returns the parts of an ELF program that it has in memory when it runs: no debug information, which names source files.
#[cfg(target_os = "linux")]
fn loaded_parts(program: &[u8]) -> Vec<&[u8]> {
    let number = |at: usize, bytes: usize| {
        program[at..at + bytes].iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
    };
    let (headers, size, count) = (number(0x28, 8), number(0x3a, 2), number(0x3c, 2));
    let sections = (0..count).map(|index| headers + index * size);
    // In memory (SHF_ALLOC), and with content in the file (not SHT_NOBITS).
    let loaded = sections.filter(|at| number(at + 8, 8) & 2 != 0 && number(at + 4, 4) != 8);
    loaded.map(|at| &program[number(at + 0x18, 8)..][..number(at + 0x20, 8)]).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn the_folder_of_the_build_is_not_in_the_program() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_baton")).unwrap();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_str().unwrap();
    let parts = loaded_parts(&program);
    let holds = |text: &str| parts.iter().any(|part| part.windows(text.len()).any(|window| window == text.as_bytes()));
    assert!(holds("Folder of the project"), "the texts of the program are among these parts");
    assert!(!holds(workspace), "{workspace} is in the program");
}

#[test]
fn a_crate_of_its_own_gets_a_tool_in_one_command_and_every_mistake_one_message() {
    let folder = Folder::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let init = ["init", "--rust", "mytools", "--source", source.to_str().unwrap()];
    folder.baton(&init).exits(0).says("mytools/src/tools/vowel_count.rs");
    let home = folder.path().join("mytools");
    let mut new = folder.command(&["new", "tool", "word_count"]);
    new.current_dir(&home);
    Ran::from(new.output().unwrap()).exits(0).says("src/tools/word_count.rs").says("tool-configs/word_count.json");
    // Cargo finds what its manifest names.
    let tree = cargo(&home, &["tree", "--depth", "1", "--prefix", "none"]).exits(0).stdout;
    let packages: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(packages, ["mytools", "baton", "serde"], "{tree}");

    let new = NewCrate::built(home.clone());
    new.run(&CALL).exits(0).says("\"words\": 2");
    new.run(&["tool", "call", "vowel_count", "--text", "hello"]).exits(0).says("\"count\": 2");
    new.run(&["run", "count"]).exits(0).says("There are");
    new.run(&["tool", "test", "word_count", "vowel_count"]).exits(0).says("3 examples passed");

    // The alias `cargo xtask` of the crate starts its own program, which alone knows the crate's functions.
    assert!(folder.read("mytools/.cargo/config.toml").ends_with("[alias]\nxtask = \"run --quiet --\"\n"));
    new.run(&["gen-docs"]).exits(0).says("generated-docs/TOOLS.md");
    let page = folder.read("mytools/generated-docs/TOOLS.md");
    assert!(page.starts_with("<!-- Generated by `cargo xtask gen-docs` from the configs of this project"), "{page}");
    assert!(page.contains("\n### `vowel_count`\n") && page.contains("\nGranted to `counter` of `count`.\n"), "{page}");
    assert!(page.contains("\n### `word_count`\n"), "a tool that no agent has yet: {page}");
    new.run(&["docs", "--check"]).exits(0);

    let config = "mytools/tool-configs/word_count.json";
    let sound = folder.read(config);
    // A renamed parameter and a wrong type are reported at the parameter, before anything runs.
    folder.write(config, sound.replace("\"text\":", "\"txt\":"));
    let ran = new.build().exits(1);
    assert!(ran.stderr.contains("txt") && ran.stderr.contains("src/tools/word_count.rs"), "{}", ran.stderr);
    folder.write(config, sound.replace("\"type\": \"string\"", "\"type\": \"integer\""));
    new.run(&["docs", "--check"]).exits(2);
    let ran = new.build().exits(1);
    assert!(ran.stderr.contains("integer") && ran.stderr.contains("src/tools/word_count.rs"), "{}", ran.stderr);
    // A function without a config, and a config without a function.
    std::fs::remove_file(home.join("tool-configs/word_count.json")).unwrap();
    new.build().exits(0);
    let ran = new.run(&CALL).exits(2);
    assert_eq!(ran.stderr.matches("error B").count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("word_count"), "{}", ran.stderr);
    folder.write(config, &sound);
    let list = folder.read("mytools/src/tools/mod.rs").replace("mod word_count;\n", "");
    folder.write("mytools/src/tools/mod.rs", list);
    new.build().exits(0);
    let ran = new.run(&CALL).exits(2);
    assert_eq!(ran.stderr.matches("error B").count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("tool-configs/word_count.json:"), "{}", ran.stderr);
}
