//! Texts that are not JSON, and texts that somebody made to do harm.

use std::path::PathBuf;

use baton_config::{FaultKind, Role, load_project};

use crate::support::{JOB, WORD_COUNT_CONFIG, sound};

/// Texts that are not JSON, by name and content. The `n_` files of `JSONTestSuite` are added where `BATON_FIXTURES` is set.
fn refused_texts() -> Vec<(String, Vec<u8>)> {
    let own: [&[u8]; 24] = [
        b"",
        b"[",
        b"{",
        b"[1,]",
        b"{\"a\":1,}",
        b"[1 2]",
        b"{\"a\" 1}",
        b"{a:1}",
        b"{'a':1}",
        b"[01]",
        b"[+1]",
        b"[.5]",
        b"[5.]",
        b"[NaN]",
        b"[Infinity]",
        b"[0x1]",
        b"[\"\\x00\"]",
        b"[\"\\uD8\"]",
        b"[\"a\nb\"]",
        b"[\"\xff\"]",
        b"[1]x",
        b"/*a*/[]",
        b"[\xe2\x81\xa01]",
        b"\xef\xbb\xbf{}",
    ];
    let mut texts: Vec<_> = own.iter().map(|text| (String::from_utf8_lossy(text).into_owned(), text.to_vec())).collect();
    if let Some(fixtures) = std::env::var_os("BATON_FIXTURES") {
        let suite = std::fs::read_dir(PathBuf::from(fixtures).join("json-testsuite/test_parsing")).unwrap();
        let paths = suite.map(|entry| entry.unwrap().path());
        let refused = paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("n_"));
        texts.extend(refused.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())));
        assert_eq!(texts.len(), own.len() + 188, "the suite has 188 texts that must be refused");
    }
    texts
}

#[test]
fn texts_that_are_not_json_are_refused_with_line_and_column_in_every_role() {
    for (name, text) in refused_texts() {
        for (role, path) in [
            (Role::Job, "job.json"),
            (Role::Agent, "agents/lead.json"),
            (Role::Tool, "tools/note.json"),
            (Role::BuiltinTool, "tool-configs/word_count.json"),
            (Role::ModelScript, "demo.script.json"),
        ] {
            let faults = sound().with(role, path, &text).load().expect_err(&name);
            let fault = faults.iter().find(|fault| fault.kind == FaultKind::Syntax).unwrap_or_else(|| panic!("{name}: {faults}"));
            assert!(fault.line >= 1 && fault.column >= 1, "{name} as {path}: {fault}");
            assert_eq!(faults.len(), 1, "{name} as {path}: one broken file makes no other look broken\n{faults}");
        }
    }
}

#[test]
fn a_broken_text_says_what_and_where() {
    let shown = |text: &[u8]| load_project("baton.json", text).unwrap_err().to_string();
    assert_eq!(
        shown(b"{\n  \"store\": \"a\",\n}"),
        "error B0101: trailing comma\n   \u{250c}\u{2500} baton.json:3:1\n 3 \u{2502} }\n   \u{2502} ^\n1 error"
    );
    assert!(shown(b"{\"store\": \"\xff\"}").contains("not text in UTF-8\n   \u{250c}\u{2500} baton.json:1:12"));
    assert!(shown(b"\xef\xbb\xbf{}").contains("byte order mark"));
    assert!(shown(b"{} {}").contains("baton.json:1:4"));
}

#[test]
fn depth_size_and_numbers_are_bounded() {
    let project = |text: String| load_project("baton.json", text.as_bytes()).unwrap_err().to_string();
    assert!(project("[".repeat(100_000)).contains("nested deeper"));
    assert!(project(format!("{}{}", "[".repeat(128), "]".repeat(128))).contains("nested deeper"));
    assert!(project(format!("\"{}\"", "a".repeat(9 << 20))).contains("too large"));
    assert!(project(format!("{{\"x\": {}}}", "9".repeat(100))).contains("too large to be kept exactly"));
    assert!(project("{\"x\": 1e400}".to_owned()).contains("number out of range"));
    assert!(project("{\"__proto__\": 1}".to_owned()).contains("unknown key \"__proto__\""));
    assert!(project("{\"store\": \"\\ud800\"}".to_owned()).contains("B0101"));
}

#[test]
fn many_keys_take_no_quadratic_time() {
    let keys: Vec<String> = (0..200_000).map(|index| format!("\"k{index}\":1")).collect();
    let twice = format!("{{{0},{0}}}", keys.join(","));
    let start = std::time::Instant::now();
    let faults = load_project("baton.json", twice.as_bytes()).unwrap_err();
    assert_eq!(faults.len(), 101);
    assert!(faults.to_string().contains("the file has more faults than are shown"));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn what_a_file_says_cannot_write_to_the_terminal() {
    let shown = load_project("baton.json", "{\"\\u001b[2Jx\u{202e}\": 1, \"store\": \"\u{9b}\u{202e}\"}".as_bytes())
        .unwrap_err()
        .to_string();
    assert!(!shown.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{shown:?}");
}

/// A small generator of numbers, so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn no_changed_bytes_make_the_loader_panic() {
    let mut numbers = Numbers(7);
    let insertions: [&[u8]; 12] =
        [b"\"", b"{", b"}", b"[", b"]", b",", b"null", b"\\u0000", b"{{", b"%}", b"\xff", b"\"a\":{\"$ref\":\"#\"},"];
    for (role, path, text) in
        [(Role::Job, "job.json", JOB), (Role::BuiltinTool, "tool-configs/word_count.json", WORD_COUNT_CONFIG)]
    {
        for round in 0..600 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=numbers.below(3) {
                let at = numbers.below(bytes.len());
                match numbers.below(4) {
                    0 => {
                        bytes.remove(at);
                    }
                    1 => bytes[at] = u8::try_from(numbers.below(256)).unwrap(),
                    2 => {
                        let insertion = insertions[numbers.below(insertions.len())];
                        bytes.splice(at..at, insertion.iter().copied());
                    }
                    _ => bytes.truncate(at.max(1)),
                }
            }
            // Sound or faulty, it comes back with an answer that can be shown.
            if let Err(faults) = sound().with(role, path, &bytes).load() {
                assert!(!faults.to_string().is_empty(), "round {round}");
            }
        }
    }
}
