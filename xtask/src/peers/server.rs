//! A server as a process: started on a port of its own, waited for, ended whatever happens.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

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

    /// Waits until the JSON that it answers to a `GET` of `path` with `key` is as it `must_be`.
    pub(crate) fn wait_until(&self, path: &str, key: &str, must_be: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        let began = Instant::now();
        let is_so =
            || self.get(path, Some(key)).is_ok_and(|body| serde_json::from_slice(&body).is_ok_and(|value| must_be(&value)));
        while !is_so() {
            ensure!(
                began.elapsed() < PATIENCE,
                "{path} is not as it must be within {} s:\n{}",
                PATIENCE.as_secs(),
                tail(&self.log)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Its address before the path of a request.
    pub(crate) fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Whether it answers a `GET` of `path` with status 200.
    fn answers(&self, path: &str) -> bool {
        self.get(path, None).is_ok()
    }

    /// Returns the body of its answer to a `GET` of `path`; an error, unless its status is 200.
    fn get(&self, path: &str, key: Option<&str>) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let authorization = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{authorization}\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let head = answer.windows(4).position(|end| end == b"\r\n\r\n").filter(|_| answer.starts_with(b"HTTP/1.1 200"));
        let head = head.ok_or_else(|| std::io::Error::other(format!("{path} is not answered with status 200")))?;
        Ok(answer.split_off(head + 4))
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
