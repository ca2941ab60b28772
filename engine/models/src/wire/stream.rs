//! An answer that comes as a stream of bytes, in any pieces.

use super::sse::{Events, Lines};
use super::{Answer, Dialect, WireError, anthropic, chat, ollama, responses};

/// Puts an answer together from what a server streams.
///
/// Feed it every piece with [`push`](Self::push), and call [`finish`](Self::finish) only if the connection ended well.
/// Before that its content is private: it never returns half a turn.
#[derive(Clone, Debug)]
pub struct StreamDecoder {
    lines: Lines,
    turn: Turn,
    taken: usize,
    most: usize,
}

/// The answer so far.
#[derive(Clone, Debug)]
enum Turn {
    Chat(Events, chat::Stream),
    Responses(Events, responses::Stream),
    Anthropic(Events, anthropic::Stream),
    Ollama(ollama::Stream),
}

impl StreamDecoder {
    pub(super) fn new(dialect: Dialect, most: usize) -> Self {
        let turn = match dialect {
            Dialect::Chat => Turn::Chat(Events::default(), chat::Stream::default()),
            Dialect::Responses => Turn::Responses(Events::default(), responses::Stream::default()),
            Dialect::Anthropic => Turn::Anthropic(Events::default(), anthropic::Stream::default()),
            Dialect::Ollama => Turn::Ollama(ollama::Stream::default()),
        };
        Self { lines: Lines::new(most), turn, taken: 0, most }
    }

    /// Takes the next bytes. After an error nothing more is taken.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.taken += bytes.len();
        if self.taken > self.most {
            return Err(WireError::TooLong { most: self.most });
        }
        let (turn, most) = (&mut self.turn, self.most);
        self.lines.push(bytes, |line| turn.line(line, most))
    }

    /// Whether the answer has come to its end: a server need not be waited for any longer.
    pub fn is_complete(&self) -> bool {
        match &self.turn {
            Turn::Chat(_, stream) => stream.is_complete(),
            Turn::Responses(_, stream) => stream.is_complete(),
            Turn::Anthropic(_, stream) => stream.is_complete(),
            Turn::Ollama(stream) => stream.is_complete(),
        }
    }

    /// Returns the answer at the end of the input.
    pub fn finish(self) -> Result<Answer, WireError> {
        let Self { lines, mut turn, most, .. } = self;
        lines.finish(|line| turn.line(line, most))?;
        // An empty line ends the last event, if the server did not.
        turn.line("", most)?;
        match turn {
            Turn::Chat(_, stream) => stream.finish(),
            Turn::Responses(_, stream) => stream.finish(),
            Turn::Anthropic(_, stream) => stream.finish(),
            Turn::Ollama(stream) => stream.finish(),
        }
    }
}

impl Turn {
    fn line(&mut self, line: &str, most: usize) -> Result<(), WireError> {
        match self {
            Self::Chat(events, stream) => events.line(line, most, |_, data| stream.event(data)),
            Self::Responses(events, stream) => events.line(line, most, |name, data| stream.event(name, data)),
            Self::Anthropic(events, stream) => events.line(line, most, |name, data| stream.event(name, data)),
            Self::Ollama(stream) if line.trim().is_empty() => Ok(()),
            Self::Ollama(stream) => stream.line(line),
        }
    }
}
