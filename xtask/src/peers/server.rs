//! A server as a process: started on a port of its own, waited for, ended whatever happens.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// Longest time until a server answers: they import many packages.
const PATIENCE: Duration = Duration::from_mins(5);

/// Number of bytes of a log shown when its server dies.
const LOG_TAIL: usize = 2_000;

/// A server that answers. It is ended when this is dropped.
pub(crate) struct Server {
    child: Child,
    /// Its port on this machine.
    pub(crate) port: u16,
    log: PathBuf,
}

impl Server {
    /// Starts the command that `command` returns for a free port, and waits until it answers `health` with success.
    /// Its output goes to `log`.
    pub(crate) fn start(command: impl FnOnce(u16) -> Command, health: &str, log: &Path) -> anyhow::Result<Self> {
        // Free again once this listener is gone. If another program takes it in between, the start fails.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        Self::start_at(port, command(port), health, log)
    }

    /// Starts `command`, which listens at `port`, as [`start`](Self::start) does.
    pub(crate) fn start_at(port: u16, mut command: Command, health: &str, log: &Path) -> anyhow::Result<Self> {
        let written = File::create(log)?;
        command.stdin(Stdio::null()).stdout(written.try_clone()?).stderr(written);
        let child = command.spawn().with_context(|| format!("{command:?} cannot be started"))?;
        let mut server = Self { child, port, log: log.to_owned() };
        let began = Instant::now();
        while !server.answers(health) {
            if let Some(status) = server.child.try_wait()? {
                bail!("the server ended before it answered ({status}):\n{}", tail(log));
            }
            if began.elapsed() > PATIENCE {
                bail!("the server does not answer within {} s:\n{}", PATIENCE.as_secs(), tail(log));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(server)
    }

    /// Waits until its log has `words`.
    pub(crate) fn wait_for_log(&self, words: &str) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.count_in_log(words)? == 0 {
            ensure!(began.elapsed() < PATIENCE, "the server does not say {words:?} within {} s", PATIENCE.as_secs());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the number of times that its log has `words`.
    pub(crate) fn count_in_log(&self, words: &str) -> anyhow::Result<usize> {
        Ok(String::from_utf8_lossy(&std::fs::read(&self.log)?).matches(words).count())
    }

    /// Its address before the path of a request.
    pub(crate) fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Whether it answers a `GET` of `path` with status 200.
    fn answers(&self, path: &str) -> bool {
        let asked = || -> std::io::Result<bool> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
            let mut status = [0; 12];
            stream.read_exact(&mut status)?;
            Ok(status == *b"HTTP/1.1 200")
        };
        asked().unwrap_or(false)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended_before = self.child.kill();
        let _waited_before = self.child.wait();
    }
}

/// Returns the end of a log.
fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL)..]).into_owned()
}
