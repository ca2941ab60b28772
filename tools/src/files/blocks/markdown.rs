//! The blocks of Markdown: headings, paragraphs, lists and fenced code.
//!
//! `CommonMark` as far as it divides a text into blocks that an agent would name. Tables, quotes, rules, HTML and front
//! matter are paragraphs: runs of lines.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{
    Block, BlockType, CannotEdit, Change, DocType, Splice, foreign, kind_of, newline, only_keys, text_of, with_newlines,
};

/// One line: where it begins, and its text without the ending.
struct Line<'a> {
    start: usize,
    text: &'a str,
}

impl Line<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }

    fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Returns the text without at most three columns of indentation; `None` if it is indented further.
    fn content(&self) -> Option<&str> {
        let content = self.text.trim_start_matches(' ');
        (self.text.len() - content.len() <= 3 && !content.starts_with('\t')).then_some(content)
    }

    fn is_indented(&self) -> bool {
        self.text.starts_with("  ") || self.text.starts_with('\t')
    }

    /// Returns the level and text of a `# heading`.
    fn heading(&self) -> Option<(usize, &str)> {
        let content = self.content()?;
        let text = content.trim_start_matches('#');
        let level = content.len() - text.len();
        let ends = text.is_empty() || text.starts_with([' ', '\t']);
        (ends && (1..=6).contains(&level)).then_some((level, text))
    }

    /// Returns the character and length of a code fence, and what follows it.
    fn fence(&self) -> Option<(char, usize, &str)> {
        let content = self.content()?;
        let mark = content.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let rest = content.trim_start_matches(mark);
        let length = content.len() - rest.len();
        (length >= 3 && !(mark == '`' && rest.contains('`'))).then_some((mark, length, rest.trim()))
    }

    /// `---`, `***` and the like.
    fn is_rule(&self) -> bool {
        let content = self.content().unwrap_or_default();
        let Some(mark) = content.trim_start().chars().next().filter(|first| matches!(first, '-' | '*' | '_')) else {
            return false;
        };
        content.chars().all(|character| character == mark || character.is_whitespace()) && content.matches(mark).count() >= 3
    }

    /// Returns the level of a heading whose text is in the lines above this line.
    fn underline(&self) -> Option<usize> {
        let marks = self.content()?.trim_end();
        let all = |mark| !marks.is_empty() && marks.chars().all(|character| character == mark);
        if all('=') { Some(1) } else { all('-').then_some(2) }
    }

    /// Returns the marker of a list item and the text behind it.
    fn item(&self) -> Option<(&str, &str)> {
        if self.is_rule() {
            return None;
        }
        let content = self.text.trim_start();
        let digits = content.len() - content.trim_start_matches(|character: char| character.is_ascii_digit()).len();
        let marker = match (digits, content[digits..].chars().next()) {
            (0, Some('-' | '*' | '+')) => 1,
            (1..=9, Some('.' | ')')) => digits + 1,
            _ => return None,
        };
        let text = &content[marker..];
        (text.is_empty() || text.starts_with([' ', '\t'])).then_some((&content[..marker], text.trim_start()))
    }

    /// Whether this line ends a paragraph that it follows.
    fn interrupts(&self) -> bool {
        let item = self.content().and_then(|_| self.item());
        let starts_list =
            item.is_some_and(|(marker, text)| !text.is_empty() && (marker.len() == 1 || matches!(marker, "1." | "1)")));
        self.is_blank() || self.heading().is_some() || self.fence().is_some() || self.is_rule() || starts_list
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    super::line::scan(text).into_iter().map(|block| Line { start: block.range.start, text: &text[block.range] }).collect()
}

pub(super) fn scan(text: &str) -> Vec<Block> {
    let lines = lines(text);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        if line.is_blank() {
            at += 1;
            continue;
        }
        let (block_type, next) = block(&lines, at);
        found.push(Block { block_type, range: line.start..lines[next - 1].end() });
        at = next;
    }
    found
}

/// Returns the type of the block that begins at line `at`, which is not blank, and the line after it.
fn block(lines: &[Line<'_>], at: usize) -> (BlockType, usize) {
    let line = &lines[at];
    if at == 0
        && line.text == "---"
        && let Some(end) = lines.iter().skip(1).position(|line| matches!(line.text, "---" | "..."))
    {
        return (BlockType::Paragraph, end + 2);
    }
    if let Some((mark, length, _)) = line.fence() {
        let closes =
            |line: &Line<'_>| line.fence().is_some_and(|(other, long, info)| other == mark && long >= length && info.is_empty());
        let end = lines.iter().skip(at + 1).position(closes).map_or(lines.len(), |end| at + end + 2);
        return (BlockType::Code, end);
    }
    if line.heading().is_some() {
        return (BlockType::Heading, at + 1);
    }
    if line.is_rule() {
        return (BlockType::Paragraph, at + 1);
    }
    if line.item().is_some() {
        return (BlockType::List, list_end(lines, at));
    }
    let mut next = at + 1;
    while let Some(line) = lines.get(next) {
        if line.underline().is_some() {
            return (BlockType::Heading, next + 1);
        }
        if line.interrupts() {
            break;
        }
        next += 1;
    }
    (BlockType::Paragraph, next)
}

/// Returns the line behind the list that begins at line `at`.
fn list_end(lines: &[Line<'_>], at: usize) -> usize {
    let mut end = at + 1;
    let mut next = end;
    while let Some(line) = lines.get(next) {
        let after_blank = next > end;
        let belongs = if line.is_blank() {
            next += 1;
            continue;
        } else if line.is_indented() || line.item().is_some() {
            true
        } else {
            !after_blank && !line.interrupts()
        };
        if !belongs {
            break;
        }
        next += 1;
        end = next;
    }
    end
}

/// Returns the ways to make a change, plainest first: the later ones set the block apart by blank lines.
pub(super) fn splices(text: &str, before: &[Block], change: &Change) -> Result<Vec<Splice>, CannotEdit> {
    let newline = newline(text);
    Ok(match change {
        Change::Update { id, data } => {
            let block = &before[*id];
            let data = merged(&text[block.range.clone()], block.block_type, data);
            in_place(&block.range, &render(block.block_type, &data, newline)?, newline)
        }
        Change::Replace { id, block_type, data } => in_place(&before[*id].range, &render(*block_type, data, newline)?, newline),
        Change::Add { position, block_type, data } => {
            let rendered = render(*block_type, data, newline)?;
            match (before.get(position.unwrap_or(before.len())), before.last()) {
                (Some(next), _) => {
                    let apart = format!("{rendered}{newline}{newline}");
                    vec![
                        Splice::insert(next.range.start, apart.clone()),
                        Splice::insert(next.range.start, newline.to_owned() + &apart),
                    ]
                }
                (None, Some(last)) => vec![Splice::insert(last.range.end, format!("{newline}{newline}{rendered}"))],
                (None, None) => {
                    let apart = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
                    vec![Splice::insert(text.len(), format!("{apart}{rendered}{newline}"))]
                }
            }
        }
        Change::Delete { id } => {
            let range = before[*id].range.clone();
            let whole = match (before.get(id + 1), id.checked_sub(1)) {
                (Some(next), _) => range.start..next.range.start,
                (None, Some(previous)) => before[previous].range.end..range.end,
                (None, None) => range.clone(),
            };
            vec![Splice::new(whole, ""), Splice::new(range, "")]
        }
    })
}

fn in_place(range: &Range<usize>, rendered: &str, newline: &str) -> Vec<Splice> {
    [("", ""), (newline, ""), ("", newline), (newline, newline)]
        .into_iter()
        .map(|(above, below)| Splice::new(range.clone(), format!("{above}{rendered}{below}")))
        .collect()
}

/// Returns the fields of a block, with the given ones in place of its own.
fn merged(raw: &str, block_type: BlockType, given: &Map<String, Value>) -> Map<String, Value> {
    let mut data = read(raw, block_type);
    for (key, value) in given {
        data.insert(key.clone(), value.clone());
    }
    data
}

/// Returns the fields of a block.
pub(super) fn read(raw: &str, block_type: BlockType) -> Map<String, Value> {
    let lines = lines(raw);
    let mut data = Map::new();
    let mut put = |key: &str, value: Value| data.insert(key.to_owned(), value);
    match block_type {
        BlockType::Heading => {
            let (level, text) = if let Some((level, text)) = lines.first().and_then(Line::heading) {
                (level, closed(text))
            } else {
                let level = lines.last().and_then(Line::underline).unwrap_or(1);
                let text: Vec<&str> = lines[..lines.len().saturating_sub(1)].iter().map(|line| line.text.trim()).collect();
                (level, text.join(" "))
            };
            put("level", level.into());
            put("text", text.into());
        }
        BlockType::List => {
            put("ordered", lines.first().and_then(Line::item).is_some_and(|(marker, _)| marker.len() > 1).into());
            put("items", items(&lines).into());
        }
        BlockType::Code => {
            let info = lines.first().and_then(Line::fence).map_or("", |(_, _, info)| info);
            let closed =
                lines.len() > 1 && lines.last().is_some_and(|line| line.fence().is_some_and(|(_, _, info)| info.is_empty()));
            let body: Vec<&str> =
                lines[1.min(lines.len())..lines.len() - usize::from(closed)].iter().map(|line| line.text).collect();
            put("language", info.into());
            put("text", body.join("\n").into());
        }
        _ => {
            put("text", with_newlines(raw, "\n").into());
        }
    }
    data
}

/// Returns the text of a heading without the closing `##`.
fn closed(text: &str) -> String {
    let text = text.trim();
    let open = text.trim_end_matches('#');
    if open.is_empty() || open.ends_with([' ', '\t']) { open.trim_end().to_owned() } else { text.to_owned() }
}

/// Returns the items of a list; what is nested keeps its lines.
fn items(lines: &[Line<'_>]) -> Vec<String> {
    let indentation = |line: &Line<'_>| line.text.len() - line.text.trim_start().len();
    let outer = lines.first().map_or(0, indentation);
    let mut items: Vec<String> = Vec::new();
    let mut inner = 0;
    for line in lines {
        match (line.item(), items.last_mut()) {
            (Some((marker, text)), _) if indentation(line) <= outer + 1 => {
                inner = indentation(line) + marker.len() + 1;
                items.push(text.trim_end().to_owned());
            }
            (_, Some(item)) => {
                let cut = indentation(line).min(inner);
                item.push('\n');
                item.push_str(line.text[cut..].trim_end());
            }
            (_, None) => {}
        }
    }
    items.into_iter().map(|item| item.trim_end().to_owned()).collect()
}

fn render(block_type: BlockType, data: &Map<String, Value>, newline: &str) -> Result<String, CannotEdit> {
    let text = || -> Result<&str, CannotEdit> {
        match text_of(data, "text")? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            _ => CannotEdit::because(format!("new_data must hold the text of the {}", block_type.as_str())),
        }
    };
    let rendered = match block_type {
        BlockType::Heading => {
            only_keys(data, &["text", "level"], block_type)?;
            let level = match data.get("level") {
                None => 1,
                Some(level) => level
                    .as_u64()
                    .filter(|level| (1..=6).contains(level))
                    .ok_or_else(|| CannotEdit(format!("new_data.level must be a whole number from 1 to 6, not {level}")))?,
            };
            if text()?.trim().contains(['\n', '\r']) {
                return CannotEdit::because("a heading holds no line break");
            }
            format!("{} {}", "#".repeat(level as usize), text()?.trim())
        }
        BlockType::Paragraph => {
            only_keys(data, &["text"], block_type)?;
            text()?.trim_matches(['\n', '\r']).trim_end().to_owned()
        }
        BlockType::List => {
            only_keys(data, &["items", "ordered"], block_type)?;
            render_list(data)?
        }
        BlockType::Code => {
            only_keys(data, &["text", "language"], block_type)?;
            render_code(data)?
        }
        other => return foreign(other, DocType::Markdown, "headings, paragraphs, lists and code"),
    };
    Ok(with_newlines(&rendered, newline))
}

fn render_list(data: &Map<String, Value>) -> Result<String, CannotEdit> {
    let ordered = match data.get("ordered") {
        None => false,
        Some(Value::Bool(ordered)) => *ordered,
        Some(other) => return CannotEdit::because(format!("new_data.ordered must be a boolean, not {}", kind_of(other))),
    };
    let Some(Value::Array(items)) = data.get("items").filter(|items| items.as_array().is_some_and(|items| !items.is_empty()))
    else {
        return CannotEdit::because("new_data.items must be a list of texts with at least one item");
    };
    let mut rendered = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let Value::String(text) = item else {
            return CannotEdit::because(format!("an item of a list is a text, not {}", kind_of(item)));
        };
        let marker = if ordered { format!("{}. ", number + 1) } else { "- ".to_owned() };
        let indentation = " ".repeat(marker.len());
        let mut lines = text.trim().lines();
        rendered.push(format!("{marker}{}", lines.next().unwrap_or_default()).trim_end().to_owned());
        rendered.extend(lines.map(|line| format!("{indentation}{line}").trim_end().to_owned()));
    }
    Ok(rendered.join("\n"))
}

fn render_code(data: &Map<String, Value>) -> Result<String, CannotEdit> {
    let text = text_of(data, "text")?.ok_or_else(|| CannotEdit("new_data must hold the text of the code".to_owned()))?;
    let language = text_of(data, "language")?.unwrap_or_default();
    if language.contains(['\n', '\r', '`']) {
        return CannotEdit::because("new_data.language is one word, such as rust");
    }
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(3.max(longest + 1));
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let body = if text.is_empty() { String::new() } else { format!("{text}\n") };
    Ok(format!("{fence}{}\n{body}{fence}", language.trim()))
}
