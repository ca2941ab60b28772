//! The program on a pseudo-terminal: its drawings, typed keys, and a window whose size changes.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::support::{Folder, wrapped};

/// The key of Ctrl-C, and the sequence that makes the cursor visible again.
pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CURSOR_BACK: &str = "\u{1b}[?25h";

/// The program on a terminal of its own.
pub(crate) struct Screen {
    child: Child,
    keys: ChildStdin,
    out: ChildStdout,
    drawn: String,
}

/// A Python program that opens a pseudo-terminal of 40 rows, starts its arguments there, and copies in both directions. A byte
/// that never occurs in text is followed by the new rows and columns of the window.
const PSEUDO_TERMINAL: &str = r#"
import fcntl, os, pty, select, signal, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    # Whoever runs the tests may ignore it (nohup).
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
streams = [terminal, 0]
while True:
    for stream in select.select(streams, [], [])[0]:
        try:
            data = os.read(stream, 65536)
        except OSError:
            data = b""
        if stream == 0:
            if not data:
                streams.remove(0)
            keys, *sizes = data.split(b"\xff")
            os.write(terminal, keys)
            for size in sizes:
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[0], size[1], 0, 0))
                os.write(terminal, size[2:])
        elif data:
            os.write(1, data)
        else:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

impl Screen {
    /// Starts the program with `arguments` on a terminal of 100 columns.
    pub(crate) fn open(folder: &Folder, arguments: &[&str]) -> Self {
        let program = folder.command(arguments);
        let arguments = ["-c", PSEUDO_TERMINAL, "sh", "-c", "stty cols 100 rows 40; exec \"$@\"", "sh"];
        let mut command = wrapped("python3", &arguments, &program);
        let mut child = command.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (keys, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, keys, out, drawn: String::new() }
    }

    /// Reads until `words` are drawn.
    #[track_caller]
    pub(crate) fn shows(&mut self, words: &str) {
        let mut bytes = [0; 4_096];
        while !self.drawn.contains(words) {
            let read = self.out.read(&mut bytes).unwrap();
            assert_ne!(read, 0, "{words:?} was never drawn:\n{}", self.drawn);
            self.drawn += &String::from_utf8_lossy(&bytes[..read]);
        }
    }

    /// Discards the earlier drawing, and reads until `words` are drawn again.
    #[track_caller]
    pub(crate) fn shows_again(&mut self, words: &str) {
        self.drawn.clear();
        self.shows(words);
    }

    /// Types keys. A program that has ended ignores them.
    pub(crate) fn types(&mut self, keys: &str) {
        let _ended = self.keys.write_all(keys.as_bytes());
    }

    /// Changes the size of the window.
    pub(crate) fn resize(&mut self, rows: u8, columns: u8) {
        self.keys.write_all(&[0xff, rows, columns]).unwrap();
    }

    /// Closes the terminal, as a window does that is closed. The system sends SIGHUP to the program.
    pub(crate) fn closes(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the program ends. Returns its exit code and everything that it drew.
    pub(crate) fn ends(mut self) -> (Option<i32>, String) {
        let mut rest = Vec::new();
        self.out.read_to_end(&mut rest).unwrap();
        self.drawn += &String::from_utf8_lossy(&rest);
        (self.child.wait().unwrap().code(), self.drawn)
    }
}
