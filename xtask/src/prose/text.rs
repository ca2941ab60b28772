//! Finds the prose of a file: comments and messages of Rust, paragraphs of Markdown, descriptions of JSON.
//!
//! Code in backticks and quoted texts are kept apart from words, since they name things or repeat what somebody said.
//! Fenced code is not prose. This module knows no rule.

use serde_json::Value;

/// Kind of a passage, which decides the rules that apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `///`.
    Doc,
    /// `//!`.
    ModuleDoc,
    /// `//`.
    Comment,
    /// A paragraph, list item, heading or table cell of Markdown.
    Markdown,
    /// A description in a JSON config.
    Description,
    /// A string literal of Rust with several words: an error, a notice, a prompt.
    Message,
}

/// Prose without a break: a paragraph, a list item, a table cell.
#[derive(Debug)]
pub(super) struct Passage {
    /// Its kind.
    pub(super) kind: Kind,
    /// True for the first passage of a doc comment.
    pub(super) first: bool,
    /// Declaration below a doc comment, up to its body; empty if there is none.
    pub(super) item: String,
    /// Its words, in order.
    pub(super) tokens: Vec<Token>,
}

/// A word, a piece of code or a quotation.
#[derive(Clone, Debug)]
pub(super) struct Token {
    /// Its text, with the punctuation around it.
    pub(super) text: String,
    /// Line in the file, from 1.
    pub(super) line: usize,
    /// Its form.
    pub(super) form: Form,
}

/// Form of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A word.
    Word,
    /// Text in backticks.
    Code,
    /// Text in quotation marks.
    Quote,
}

impl Token {
    /// Returns the word without punctuation, in lower case; nothing for code and quotations.
    pub(super) fn word(&self) -> String {
        match self.form {
            Form::Word => bare(&self.text).to_lowercase(),
            Form::Code | Form::Quote => String::new(),
        }
    }

    /// Returns the text between the backticks of a piece of code.
    pub(super) fn code(&self) -> Option<&str> {
        (self.form == Form::Code).then(|| self.text.split('`').nth(1).unwrap_or_default())
    }

    /// Returns true if punctuation follows the word.
    pub(super) fn ends_clause(&self) -> bool {
        self.text.ends_with([',', '.', ';', ':', '?', '!', ')'])
    }

    fn ends_sentence(&self) -> bool {
        let text = self.text.trim_end_matches([')', '"', '*', '_', '’', '”']);
        let is_abbreviation = ["e.g.", "i.e.", "cf.", "vs."].iter().any(|known| text.trim_start_matches('(') == *known);
        text.ends_with(['.', '?', '!', '…']) && !is_abbreviation
    }
}

fn bare(text: &str) -> &str {
    text.trim_matches(|character: char| !character.is_alphanumeric())
}

impl Passage {
    /// Returns the passage's sentences.
    pub(super) fn sentences(&self) -> Vec<&[Token]> {
        let mut sentences = Vec::new();
        let mut start = 0;
        for (index, token) in self.tokens.iter().enumerate() {
            let next_begins = self.tokens.get(index + 1).is_none_or(|next| {
                next.form != Form::Word || bare(&next.text).chars().next().is_none_or(|first| !first.is_lowercase())
            });
            if token.ends_sentence() && next_begins {
                sentences.push(&self.tokens[start..=index]);
                start = index + 1;
            }
        }
        if start < self.tokens.len() {
            sentences.push(&self.tokens[start..]);
        }
        sentences
    }
}

/// Returns the messages of a Rust file: its string literals with several words, except those of its tests.
pub(super) fn messages(source: &str) -> Vec<Passage> {
    let tested = source.find("#[cfg(test)]\nmod ").unwrap_or(source.len());
    let mut passages = Vec::new();
    for piece in pieces(&source[..tested]) {
        let Piece::Literal { line, text } = piece else { continue };
        // Quotation marks would hide the words between them, which are printed like the rest.
        let printed = text.replace("\\n", " ").replace("\\\"", "'").replace(['"', '\\'], " ");
        let lines: Vec<(usize, &str)> = printed.lines().enumerate().map(|(index, part)| (line + index, part.trim())).collect();
        let tokens = tokens(&lines);
        if tokens.len() > 1 {
            passages.push(Passage { kind: Kind::Message, first: false, item: String::new(), tokens });
        }
    }
    passages
}

/// Returns the comments of a Rust file as passages.
pub(super) fn of_rust(source: &str) -> Vec<Passage> {
    let lines: Vec<&str> = source.lines().collect();
    let mut passages = Vec::new();
    let mut block: Vec<(usize, &str)> = Vec::new();
    let mut block_kind = Kind::Comment;
    let mut finish = |block: &mut Vec<(usize, &str)>, kind: Kind| {
        let item = match (kind, block.last()) {
            (Kind::Doc, Some((last, _))) => declaration(&lines[*last..]),
            _ => String::new(),
        };
        for (index, paragraph) in paragraphs(block).iter().enumerate() {
            let tokens = tokens(paragraph);
            if !tokens.is_empty() {
                passages.push(Passage { kind, first: index == 0, item: item.clone(), tokens });
            }
        }
        block.clear();
    };
    for piece in pieces(source) {
        let Piece::Comment { line, text, whole } = piece else { continue };
        let (kind, text) = match text.as_bytes() {
            [b'/', b'/', ..] => (Kind::Comment, text),
            [b'/', ..] => (Kind::Doc, &text[1..]),
            [b'!', ..] => (Kind::ModuleDoc, &text[1..]),
            _ => (Kind::Comment, text),
        };
        let follows = block.last().is_some_and(|(last, _)| last + 1 == line) && kind == block_kind && whole;
        if !follows {
            finish(&mut block, block_kind);
        }
        block_kind = kind;
        block.push((line, text));
    }
    finish(&mut block, block_kind);
    passages
}

/// A part of a Rust file with words in it.
enum Piece<'a> {
    /// A line comment: the text after `//`, and whether its line has nothing else.
    Comment { line: usize, text: &'a str, whole: bool },
    /// A string literal: the text between its quotation marks, with its escapes.
    Literal { line: usize, text: &'a str },
}

/// Returns the line comments and the string literals of `source`, in order.
fn pieces(source: &str) -> Vec<Piece<'_>> {
    let bytes = source.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line, mut line_start) = (0, 1, 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let is_prefix = || !at.checked_sub(1).is_some_and(|before| is_name(bytes[before]));
        let literal = match rest {
            [b'"', ..] => Some((1, string(rest), 1)),
            [b'r' | b'b' | b'c', ..] if is_prefix() => raw_string(rest),
            _ => None,
        };
        let skipped = match rest {
            [b'/', b'/', ..] => {
                let end = source[at..].find('\n').map_or(source.len(), |length| at + length);
                let whole = source[line_start..at].trim().is_empty();
                found.push(Piece::Comment { line, text: &source[at + 2..end], whole });
                end - at
            }
            [b'/', b'*', ..] => source[at..].find("*/").map_or(rest.len(), |length| length + 2),
            [b'\'', b'\\', ..] => rest.iter().skip(3).position(|byte| *byte == b'\'').map_or(1, |length| length + 4),
            [b'\'', ..] => character(&source[at..]),
            _ => literal.map_or(1, |(_, length, _)| length),
        };
        if let Some((open, length, close)) = literal {
            found.extend(source.get(at + open..at + length - close).map(|text| Piece::Literal { line, text }));
        }
        for (offset, byte) in rest.iter().enumerate().take(skipped) {
            if *byte == b'\n' {
                line += 1;
                line_start = at + offset + 1;
            }
        }
        at += skipped;
    }
    found
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the length of a string literal.
fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the lengths of the opening, the whole and the closing of a raw string literal such as `r#"…"#`, if there is one.
fn raw_string(rest: &[u8]) -> Option<(usize, usize, usize)> {
    let prefix = rest.iter().position(|byte| !matches!(byte, b'r' | b'b' | b'c'))?;
    if !rest[..prefix].contains(&b'r') {
        return None;
    }
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let length = rest[open + 1..].windows(close.len()).position(|window| window == close)?;
    Some((open + 1, open + 1 + length + close.len(), close.len()))
}

/// Returns the length of a character literal; 1 for a lifetime.
fn character(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    let _character = characters.next();
    match characters.next() {
        Some((end, '\'')) => end + 1,
        _ => 1,
    }
}

/// Returns the declaration that begins in `lines`, without attributes, up to its body or end.
fn declaration(lines: &[&str]) -> String {
    let mut item = String::new();
    let mut in_attribute = false;
    for line in lines.iter().take(40).map(|line| line.trim()) {
        if in_attribute || line.starts_with("#[") {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                // Comments of tests may be sentences about the case.
                return String::new();
            }
            in_attribute = !line.ends_with(']');
        } else if !line.starts_with("//") {
            item.push_str(line);
            item.push(' ');
            if line.is_empty() || line.ends_with(['{', ';', '}']) || (line.ends_with(',') && !item.contains("fn ")) {
                break;
            }
        }
    }
    item
}

/// Splits lines at blank lines, list items, headings, tables and fences.
fn paragraphs<'a>(lines: &[(usize, &'a str)]) -> Vec<Vec<(usize, &'a str)>> {
    let mut found: Vec<Vec<(usize, &str)>> = vec![Vec::new()];
    let mut fenced = false;
    for &(line, text) in lines {
        let trimmed = text.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            fenced = !fenced;
            found.push(Vec::new());
            continue;
        }
        if fenced {
            continue;
        }
        if trimmed.starts_with('|') {
            found.extend(cells(trimmed).into_iter().map(|cell| vec![(line, cell)]));
            found.push(Vec::new());
            continue;
        }
        let item = ["- ", "* ", "# ", "## ", "### ", "> "].iter().find_map(|mark| trimmed.strip_prefix(mark)).or_else(|| {
            let (number, rest) = trimmed.split_once(". ")?;
            (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
        });
        if trimmed.is_empty() || item.is_some() || trimmed.starts_with('<') {
            found.push(Vec::new());
        }
        if let Some(paragraph) = found.last_mut() {
            paragraph.push((line, item.unwrap_or(trimmed)));
        }
        if trimmed.starts_with('#') {
            found.push(Vec::new());
        }
    }
    found.retain(|paragraph| paragraph.iter().any(|(_, text)| !text.is_empty()));
    found
}

/// Splits a row of a table, but not inside of code.
fn cells(row: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let (mut start, mut in_code) = (0, false);
    for (at, character) in row.char_indices() {
        match character {
            '`' => in_code = !in_code,
            '|' if !in_code => {
                cells.push(row[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    cells.retain(|cell| !cell.is_empty() && !cell.chars().all(|character| matches!(character, '-' | ':' | ' ')));
    cells
}

/// Splits a paragraph into words, code and quotations.
fn tokens(paragraph: &[(usize, &str)]) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let (mut form, mut open) = (Form::Word, false);
    for &(line, text) in paragraph {
        let mut begins = !open;
        for character in text.chars() {
            match character {
                '`' if form != Form::Quote => (open, form) = if open { (false, Form::Code) } else { (true, Form::Code) },
                '"' | '“' | '”' if form != Form::Code || !open => {
                    (open, form) = if open { (false, Form::Quote) } else { (true, Form::Quote) };
                }
                ' ' if !open => {
                    (begins, form) = (true, Form::Word);
                    continue;
                }
                _ => {}
            }
            match tokens.last_mut() {
                Some(last) if !begins => {
                    last.text.push(character);
                    if last.form == Form::Word {
                        last.form = form;
                    }
                }
                _ => tokens.push(Token { text: character.to_string(), line, form }),
            }
            begins = false;
        }
        if open {
            tokens.last_mut().into_iter().for_each(|last| last.text.push(' '));
        } else {
            form = Form::Word;
        }
    }
    tokens
}

/// Returns the prose of a Markdown page.
pub(super) fn of_markdown(page: &str) -> Vec<Passage> {
    let lines: Vec<(usize, &str)> = page.lines().enumerate().map(|(index, line)| (index + 1, line)).collect();
    let passages = paragraphs(&lines).into_iter().map(|paragraph| tokens(&paragraph)).filter(|tokens| !tokens.is_empty());
    passages.map(|tokens| Passage { kind: Kind::Markdown, first: false, item: String::new(), tokens }).collect()
}

/// Returns the texts under `description` and `title` in a JSON config; nothing if it is no JSON.
pub(super) fn of_json(text: &str) -> Vec<Passage> {
    let mut found = Vec::new();
    if let Ok(config) = serde_json::from_str::<Value>(text) {
        collect(&config, &mut found);
    }
    let mut passages = Vec::new();
    for description in found {
        // The value as the file spells it, to find its line.
        let spelled = serde_json::to_string(&description).unwrap_or_default();
        let line = text.find(&spelled).map_or(1, |at| text[..at].matches('\n').count() + 1);
        let lines: Vec<(usize, &str)> = description.lines().map(|part| (line, part)).collect();
        let kind = Kind::Description;
        let parts = paragraphs(&lines).into_iter().map(|part| tokens(&part)).filter(|tokens| !tokens.is_empty());
        passages.extend(parts.map(|tokens| Passage { kind, first: false, item: String::new(), tokens }));
    }
    passages
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if matches!(key.as_str(), "description" | "title") => found.push(text.clone()),
                    _ => collect(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}
