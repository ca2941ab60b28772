//! Blocks that follow each other line by line: the lines of plain text, and the base of tables.

use serde_json::{Map, Value};

use super::{Block, BlockType, CannotEdit, Change, DocType, Splice, foreign, newline, only_keys, text_of};

/// Returns one block per line, without its ending. A text that ends with a line ending has no empty line after it.
pub(super) fn scan(text: &str) -> Vec<Block> {
    let mut start = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        let content = line.strip_suffix('\n').map_or(line, |content| content.strip_suffix('\r').unwrap_or(content));
        found.push(Block { block_type: BlockType::Line, range: start..start + content.len() });
        start += line.len();
    }
    found
}

pub(super) fn splice(text: &str, before: &[Block], change: &Change) -> Result<Splice, CannotEdit> {
    match change {
        Change::Update { id, data } => Ok(Splice::new(before[*id].range.clone(), line(data)?)),
        Change::Replace { id, block_type, data } => {
            own(*block_type)?;
            Ok(Splice::new(before[*id].range.clone(), line(data)?))
        }
        Change::Add { position, block_type, data } => {
            own(*block_type)?;
            Ok(insertion(text, before, position.unwrap_or(before.len()), &line(data)?))
        }
        Change::Delete { id } => Ok(deletion(text, before, *id)),
    }
}

fn own(block_type: BlockType) -> Result<(), CannotEdit> {
    if block_type == BlockType::Line { Ok(()) } else { foreign(block_type, DocType::Text, "lines") }
}

fn line(data: &Map<String, Value>) -> Result<String, CannotEdit> {
    only_keys(data, &["text"], BlockType::Line)?;
    let text = text_of(data, "text")?.ok_or_else(|| CannotEdit("new_data must hold the line's text".to_owned()))?;
    if text.contains(['\n', '\r']) {
        return CannotEdit::because("a line holds no line break; add the lines one by one");
    }
    Ok(text.to_owned())
}

/// Puts a line-like block at `position`, which is at most the number of blocks.
pub(super) fn insertion(text: &str, before: &[Block], position: usize, rendered: &str) -> Splice {
    let newline = newline(text);
    match (before.get(position), before.last()) {
        (Some(next), _) => Splice::insert(next.range.start, format!("{rendered}{newline}")),
        // Behind the last one, before its ending: a text without a final line ending stays without one.
        // An empty line is one only if it has an ending.
        (None, Some(last)) if rendered.is_empty() && last.range.end == text.len() => {
            Splice::insert(text.len(), newline.repeat(2))
        }
        (None, Some(last)) => Splice::insert(last.range.end, format!("{newline}{rendered}")),
        (None, None) => Splice::insert(text.len(), format!("{rendered}{newline}")),
    }
}

/// Removes a line-like block with its line ending, or with the one before if it is the last and has none.
pub(super) fn deletion(text: &str, before: &[Block], id: usize) -> Splice {
    let range = before[id].range.clone();
    let rest = &text[range.end..];
    let ending = ["\r\n", "\n", "\r"].iter().find(|ending| rest.starts_with(**ending)).map_or(0, |ending| ending.len());
    match id.checked_sub(1).and_then(|previous| before.get(previous)) {
        // An empty line before it needs its ending to be a line at all.
        Some(previous) if ending == 0 && !previous.range.is_empty() => Splice::new(previous.range.end..range.end, ""),
        _ => Splice::new(range.start..range.end + ending, ""),
    }
}
