//! A NATS server with JetStream and its data in a temporary folder.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longest time until a server answers.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Folders that may have the server and are not on every path.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/bin"];

/// Starts the server at each line of its input. At the end of the input, which is the end of the test program, it kills the server and
/// removes the folder.
const SUPERVISOR: &str = r#"
while read -r _start; do
    "$0" "${@:2}" >>"$1/log" 2>&1 </dev/null &
    echo "$!" >"$1/pid"
done
kill -KILL "$(cat "$1/pid")"
wait
rm -rf "$1"
"#;

/// A server, which listens on the loopback interface only. It ends when it is dropped, or with the process.
#[derive(Debug)]
pub struct Nats {
    folder: PathBuf,
    port: u16,
    supervisor: Mutex<Child>,
}

impl Nats {
    /// Starts a server. Panics if nats-server is not installed or does not start.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with more arguments of `nats-server`.
    pub fn start_with(arguments: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("baton-nats-").tempdir().expect("a temporary folder").keep();
        // Free now. If another program takes it before, the server does not start, and the test fails with the log.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port();
        let supervisor = Command::new("bash")
            .args(["-c", SUPERVISOR])
            .arg(nats_server())
            .arg(&folder)
            .args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--jetstream", "--store_dir"])
            .arg(folder.join("data"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash can be started");
        let server = Self { folder, port, supervisor: Mutex::new(supervisor) };
        server.start_again();
        server
    }

    /// Returns the address.
    pub fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns the address with a user and a password.
    pub fn address_as(&self, login: &str) -> String {
        format!("nats://{login}@127.0.0.1:{}", self.port)
    }

    /// Kills the server without a chance to write anything (SIGKILL). Connections break.
    pub fn kill(&self) {
        let pid = std::fs::read_to_string(self.folder.join("pid")).expect("the server runs");
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, Signal::KILL).expect("the server is a process of this program");
        let give_up = Instant::now() + START_TIMEOUT;
        while self.answers() {
            assert!(Instant::now() < give_up, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts the server again after [`Nats::kill`], and waits until it answers.
    pub fn start_again(&self) {
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        supervisor.stdin.as_mut().expect("it is piped").write_all(b"start\n").expect("the supervisor runs");
        drop(supervisor);
        let give_up = Instant::now() + START_TIMEOUT;
        while !self.answers() {
            assert!(Instant::now() < give_up, "nats-server does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Removes what JetStream keeps. The server must not run.
    pub fn forget_everything(&self) {
        std::fs::remove_dir_all(self.folder.join("data")).expect("the data of the server can be removed");
    }

    /// Returns what the server logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn answers(&self) -> bool {
        std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        drop(supervisor.stdin.take());
        let _ended = supervisor.wait();
    }
}

/// Returns the path of nats-server. Panics if it is not installed.
pub fn nats_server() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from)).collect();
    let found = folders.iter().map(|folder| folder.join("nats-server")).find(|file| Path::is_file(file));
    found.expect("nats-server is installed: cargo xtask test installs it, or apt-get install nats-server")
}
