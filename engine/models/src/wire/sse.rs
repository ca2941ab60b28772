//! Lines and server-sent events, out of bytes that come in any pieces (WHATWG HTML, section 9.2).

use super::WireError;

/// Splits bytes into lines, which end with LF, CR LF or CR.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    /// The line that has not ended yet.
    open: Vec<u8>,
    /// The byte before was a CR: an LF now belongs to it.
    after_cr: bool,
    /// Nothing has come yet, so a byte order mark may.
    first: bool,
    most: usize,
}

impl Lines {
    pub(super) fn new(most: usize) -> Self {
        Self { open: Vec::new(), after_cr: false, first: true, most }
    }

    /// Takes `bytes`, and hands over each line that they end.
    pub(super) fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&str) -> Result<(), WireError>) -> Result<(), WireError> {
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            self.after_cr = false;
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.grow(&rest[..end])?;
            let is_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            match rest.first() {
                Some(b'\n') if is_cr => rest = &rest[1..],
                None => self.after_cr = is_cr,
                Some(_) => {}
            }
            self.end(&mut line)?;
        }
        self.grow(rest)
    }

    /// Ends the input: an unfinished line is the last line.
    pub(super) fn finish(mut self, mut line: impl FnMut(&str) -> Result<(), WireError>) -> Result<(), WireError> {
        if self.open.is_empty() { Ok(()) } else { self.end(&mut line) }
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        if self.open.len() + bytes.len() > self.most {
            return Err(WireError::TooLong { most: self.most });
        }
        self.open.extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self, line: &mut impl FnMut(&str) -> Result<(), WireError>) -> Result<(), WireError> {
        let text = String::from_utf8_lossy(&self.open);
        let text = if self.first { text.strip_prefix('\u{feff}').unwrap_or(&text) } else { &text };
        let result = line(text);
        self.first = false;
        self.open.clear();
        result
    }
}

/// Puts lines together to events: their name, if they have one, and their data.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    name: Option<String>,
    data: Option<String>,
}

impl Events {
    /// Takes a line, and hands over the event that it ends. Comments, ids and times to wait are passed over.
    pub(super) fn line(
        &mut self,
        line: &str,
        most: usize,
        event: impl FnOnce(Option<&str>, &str) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        if line.is_empty() {
            return self.end(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = Some(value.to_owned()),
            "data" => {
                let data = self.data.get_or_insert_default();
                if data.len() + value.len() > most {
                    return Err(WireError::TooLong { most });
                }
                if !data.is_empty() {
                    data.push('\n');
                }
                data.push_str(value);
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends an event, or the input: servers do not always send an empty line after the last event.
    pub(super) fn end(&mut self, event: impl FnOnce(Option<&str>, &str) -> Result<(), WireError>) -> Result<(), WireError> {
        let name = self.name.take();
        match self.data.take() {
            Some(data) if !data.is_empty() => event(name.as_deref(), &data),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all events of `pieces`, as `name|data`.
    fn events(pieces: &[&[u8]]) -> Result<Vec<String>, WireError> {
        let (mut lines, mut events, mut found) = (Lines::new(64), Events::default(), Vec::new());
        let mut add = |name: Option<&str>, data: &str| {
            found.push(format!("{}|{data}", name.unwrap_or_default()));
            Ok(())
        };
        for piece in pieces {
            lines.push(piece, |line| events.line(line, 64, &mut add))?;
        }
        lines.finish(|line| events.line(line, 64, &mut add))?;
        events.end(add)?;
        Ok(found)
    }

    #[test]
    fn an_event_is_the_same_however_its_bytes_come() {
        let stream =
            "\u{feff}: hello\r\nevent: a\r\ndata: {\"x\":\"ü€𝄞\"}\r\n\r\nid: 7\ndata:1\rdata: 2\n\n\n:\ndata: [DONE]\n\n";
        let expected = ["a|{\"x\":\"ü€𝄞\"}", "|1\n2", "|[DONE]"];
        let bytes = stream.as_bytes();
        assert_eq!(events(&[bytes]).unwrap(), expected);
        for cut in 0..=bytes.len() {
            assert_eq!(events(&[&bytes[..cut], &bytes[cut..]]).unwrap(), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(events(&single).unwrap(), expected);
    }

    #[test]
    fn the_last_event_counts_without_its_empty_line() {
        assert_eq!(events(&[b"data: 1\n\ndata: [DONE]"]).unwrap(), ["|1", "|[DONE]"]);
        assert_eq!(events(&[b"event: ping\n\n: nothing\n\n"]).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_line_or_an_event_without_end_is_refused() {
        let too_long = Err(WireError::TooLong { most: 64 });
        assert_eq!(events(&[&[b'x'; 65]]), too_long);
        assert_eq!(events(&[&[b'x'; 40], &[b'x'; 40]]), too_long);
        assert_eq!(events(&[b"data: 0123456789012345678901234567890123456789\n".as_slice(); 2]), too_long);
    }
}
