//! `init --rust`: a crate with its own tools, outside this workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Folder, Ran};

/// Returns the folder of this workspace's build. The crate is built there too, because nearly all of it already exists.
fn target() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_baton")).ancestors().nth(2).expect("the program lies in target/<profile>").to_owned()
}

/// Runs cargo in the crate, offline, with the existing build of this workspace.
fn cargo(crate_folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(crate_folder).args(arguments).env("CARGO_TARGET_DIR", target()).env("CARGO_NET_OFFLINE", "true");
    for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "RUSTFLAGS", "RUSTC_WRAPPER", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    Ran::from(command.output().unwrap())
}

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
    folder
        .baton(&["init", "--rust", "mytools", "--source", source.to_str().unwrap()])
        .exits(0)
        .says("mytools/src/tools/vowel_count.rs");
    let home = folder.path().join("mytools");
    let mut new = folder.command(&["new", "tool", "word_count"]);
    new.current_dir(&home);
    Ran::from(new.output().unwrap()).exits(0).says("src/tools/word_count.rs").says("tool-configs/word_count.json");

    let call = ["run", "-q", "--", "tool", "call", "word_count", "--input", r#"{"text":"a b"}"#];
    cargo(&home, &call).exits(0).says("\"words\": 2");
    let program = |arguments: &[&str]| {
        let mut command = Command::new(target().join("debug/mytools"));
        Ran::from(command.current_dir(&home).args(arguments).output().unwrap())
    };
    program(&["tool", "call", "vowel_count", "--text", "hello"]).exits(0).says("\"count\": 2");
    program(&["run", "count"]).exits(0).says("There are");
    program(&["tool", "test", "word_count", "vowel_count"]).exits(0).says("3 examples passed");

    // The alias of the crate starts its own program, which alone knows the crate's functions.
    cargo(&home, &["xtask", "gen-docs"]).exits(0).says("generated-docs/TOOLS.md");
    let page = folder.read("mytools/generated-docs/TOOLS.md");
    assert!(page.starts_with("<!-- Generated by `cargo xtask gen-docs` from the configs of this project"), "{page}");
    assert!(page.contains("\n### `vowel_count`\n") && page.contains("\nGranted to `counter` of `count`.\n"), "{page}");
    assert!(page.contains("\n### `word_count`\n"), "a tool that no agent has yet: {page}");
    program(&["docs", "--check"]).exits(0);

    let config = "mytools/tool-configs/word_count.json";
    let sound = folder.read(config);
    // A renamed parameter and a wrong type are reported at the parameter, before anything runs.
    folder.write(config, sound.replace("\"text\":", "\"txt\":"));
    let ran = cargo(&home, &call).exits(101);
    assert!(ran.stderr.contains("txt") && ran.stderr.contains("src/tools/word_count.rs"), "{}", ran.stderr);
    folder.write(config, sound.replace("\"type\": \"string\"", "\"type\": \"integer\""));
    program(&["docs", "--check"]).exits(2);
    let ran = cargo(&home, &call).exits(101);
    assert!(ran.stderr.contains("integer") && ran.stderr.contains("src/tools/word_count.rs"), "{}", ran.stderr);
    // A function without a config, and a config without a function.
    std::fs::remove_file(home.join("tool-configs/word_count.json")).unwrap();
    let ran = cargo(&home, &call).exits(2);
    assert_eq!(ran.stderr.matches("error B").count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("word_count"), "{}", ran.stderr);
    folder.write(config, &sound);
    let list = folder.read("mytools/src/tools/mod.rs").replace("mod word_count;\n", "");
    folder.write("mytools/src/tools/mod.rs", list);
    let ran = cargo(&home, &call).exits(2);
    assert_eq!(ran.stderr.matches("error B").count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("tool-configs/word_count.json:"), "{}", ran.stderr);
}
