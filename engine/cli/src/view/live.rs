//! The live tree: drawn in place on stderr, at most ten times a second, and cleared when the run is over.
//!
//! Lines are redrawn in place. There is no alternate screen, so earlier output stays readable. Long lines are cut. Wide
//! characters may still make a line too long; the terminal cuts it, because wrapping is off while the tree is drawn. Therefore
//! the layout never breaks.

use std::io::Write;
use std::time::{Duration, Instant};

use baton_types::time::Timestamp;
use crossterm::{cursor, queue, terminal};

use super::RunView;
use crate::style;
use crate::text::{Text, text};

/// Shortest time between two drawings.
const FRAME: Duration = Duration::from_millis(100);

/// Number of the tree's rows that are kept above a question that is longer than the window.
const MIN_TREE: usize = 3;

/// The drawing above the cursor.
#[derive(Debug)]
pub(crate) struct LiveTree {
    /// Number of lines of the last drawing, above the cursor.
    drawn: u16,
    last: Option<Instant>,
    raw: bool,
}

/// A question below the tree, and the answer while the person types it.
#[derive(Debug)]
pub(crate) struct Prompt<'a> {
    /// The lines of the question.
    pub(crate) lines: Vec<Text>,
    /// The text typed so far.
    pub(crate) typed: &'a str,
    /// The help about the keys.
    pub(crate) keys: &'static str,
    /// The reason why the last answer was rejected.
    pub(crate) fault: Option<&'a str>,
}

impl LiveTree {
    /// Prepares the terminal for drawing. Dropping the tree restores the terminal in any case.
    pub(crate) fn new() -> Self {
        let mut err = std::io::stderr();
        let _best_effort = queue!(err, cursor::Hide, terminal::DisableLineWrap).and_then(|()| err.flush());
        Self { drawn: 0, last: None, raw: false }
    }

    /// Returns the time from which the next drawing is permitted.
    pub(crate) fn next_frame(&self) -> Instant {
        self.last.map_or_else(Instant::now, |last| last + FRAME)
    }

    /// Draws the tree of a run, and the question below it; both are optional.
    pub(crate) fn draw(&mut self, view: Option<&RunView>, now: Timestamp, prompt: Option<&Prompt<'_>>) {
        let (width, height) = size();
        let room = usize::from(height).saturating_sub(2).max(1);
        let (mut question, mut below) = (Vec::new(), Vec::new());
        if let Some(prompt) = prompt {
            question.extend(prompt.lines.iter().flat_map(Text::lines));
            below.extend(prompt.fault.map(|fault| text!("  {}", style::bad(fault))));
            below.push(text!("  {}", style::faint(prompt.keys)));
        }
        // Room is given to the keys, the end of the question with its choices, its beginning, and the tree, in this order.
        let for_question = room.saturating_sub(below.len() + MIN_TREE);
        let question = without_middle(question, for_question);
        let rows = room.saturating_sub(question.len() + below.len()).max(1);
        let mut lines = view.map(|view| view.live_tree(now, usize::from(width), rows)).unwrap_or_default();
        lines.extend(question.into_iter().chain(below));
        lines.truncate(room);
        self.replace(&lines, prompt.map(|prompt| prompt.typed));
    }

    /// Replaces the last drawing with `lines`, and puts the cursor after `typed` on a line of its own.
    fn replace(&mut self, lines: &[Text], typed: Option<&str>) {
        let mut frame: Vec<u8> = Vec::new();
        let _memory = queue!(frame, terminal::BeginSynchronizedUpdate);
        self.rewind(&mut frame);
        let (width, _) = size();
        for line in lines {
            // The terminal does not wrap, and would show the end of a longer line in its last column.
            frame.extend_from_slice(line.cut(usize::from(width)).as_str().as_bytes());
            frame.extend_from_slice(b"\r\n");
        }
        match typed {
            Some(typed) => {
                frame.extend_from_slice(text!("  > {typed}").as_str().as_bytes());
                let _memory = queue!(frame, cursor::Show);
            }
            None => drop(queue!(frame, cursor::Hide)),
        }
        let _memory = queue!(frame, terminal::EndSynchronizedUpdate);
        self.drawn = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        self.last = Some(Instant::now());
        write_all(&frame);
    }

    /// Prints lines that remain on the screen, above the drawing.
    pub(crate) fn say(&mut self, lines: &[Text]) {
        self.clear();
        let lines: Vec<u8> =
            lines.iter().flat_map(Text::lines).flat_map(|line| [line.as_str().as_bytes(), b"\r\n"].concat()).collect();
        write_all(&lines);
    }

    /// Clears the drawing, so that other lines can be printed. The next drawing starts below them.
    pub(crate) fn clear(&mut self) {
        let mut frame: Vec<u8> = Vec::new();
        self.rewind(&mut frame);
        write_all(&frame);
        self.drawn = 0;
    }

    /// Reads keys one by one (`true`), or line by line as programs usually do.
    pub(crate) fn keys(&mut self, raw: bool) {
        if raw != self.raw {
            let switched = if raw { terminal::enable_raw_mode() } else { terminal::disable_raw_mode() };
            self.raw = raw && switched.is_ok();
        }
    }

    fn rewind(&self, frame: &mut Vec<u8>) {
        let _memory = queue!(frame, cursor::MoveToColumn(0));
        if self.drawn > 0 {
            let _memory = queue!(frame, cursor::MoveUp(self.drawn));
        }
        let _memory = queue!(frame, terminal::Clear(terminal::ClearType::FromCursorDown));
    }
}

impl Drop for LiveTree {
    fn drop(&mut self) {
        self.keys(false);
        let mut frame: Vec<u8> = Vec::new();
        let _memory = queue!(frame, cursor::Show, terminal::EnableLineWrap);
        write_all(&frame);
    }
}

/// Returns `lines`; if there are more than `room`, some in the middle are left out.
fn without_middle(mut lines: Vec<Text>, room: usize) -> Vec<Text> {
    if lines.len() <= room {
        return lines;
    }
    let (kept, hidden) = (room.saturating_sub(1), lines.len() + 1 - room.max(1));
    let first = kept / 2;
    let note = style::faint(format!("  … {hidden} lines are not shown: the window is too small"));
    lines.splice(first..first + hidden, [note]);
    lines
}

/// Returns the terminal's columns and rows.
fn size() -> (u16, u16) {
    terminal::size().unwrap_or((100, 40))
}

/// Writes a frame at once. Colours are dropped if the rest of the output has none; cursor movements are always kept.
fn write_all(frame: &[u8]) {
    let mut err = std::io::stderr().lock();
    let coloured = anstream::AutoStream::choice(&err) != anstream::ColorChoice::Never;
    let text = if coloured { frame.to_vec() } else { without_colour(frame) };
    let _best_effort = err.write_all(&text).and_then(|()| err.flush());
}

/// Removes the colour sequences (`ESC [ … m`) and keeps those that move the cursor.
fn without_colour(frame: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(frame.len());
    let mut rest = frame;
    while let Some(start) = rest.windows(2).position(|pair| pair == b"\x1b[") {
        let length =
            rest[start + 2..].iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(rest.len(), |end| start + 3 + end);
        kept.extend_from_slice(&rest[..start]);
        if rest.get(length - 1) != Some(&b'm') {
            kept.extend_from_slice(&rest[start..length]);
        }
        rest = &rest[length..];
    }
    kept.extend_from_slice(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_too_long_for_the_window_keeps_its_beginning_and_its_choices() {
        let lines = |count: usize| (1..=count).map(|number| text!("{number}")).collect::<Vec<_>>();
        let shown = |count, room| Text::joined(without_middle(lines(count), room), " ").as_str().replace("\u{1b}[2m", "");
        assert_eq!(shown(3, 3), "1 2 3");
        assert_eq!(shown(9, 5), "1 2   … 5 lines are not shown: the window is too small\u{1b}[0m 8 9");
        for room in 0..9 {
            assert_eq!(without_middle(lines(9), room).len(), room.max(1));
        }
    }

    #[test]
    fn colours_go_and_movements_stay() {
        assert_eq!(without_colour(b"\x1b[2K\x1b[1;31mred\x1b[0m\x1b[3A."), b"\x1b[2Kred\x1b[3A.");
        assert_eq!(without_colour(b"\x1b[31"), b"\x1b[31");
    }
}
