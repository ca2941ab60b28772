//! A PostgreSQL server with its data in a temporary folder.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The port in the name of the socket. Nothing listens on a network.
pub(crate) const PORT: &str = "5432";

/// Longest time until a server answers, also after a crash.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Folder in which Debian's packages have the programs, each version in a folder of its own.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Starts the server at each line of its input. At the end of the input, which is the end of the test program, it ends the server and
/// removes the folder.
const SUPERVISOR: &str = r#"
while read -r _start; do
    "$0" -D "$1/data" -k "$1" "${@:2}" >>"$1/log" 2>&1 </dev/null &
done
read -r pid <"$1/data/postmaster.pid" && kill -QUIT "$pid" && while kill -0 "$pid"; do sleep 0.05; done
rm -rf "$1"
"#;

/// A server. It ends when it is dropped, or with the process.
#[derive(Debug)]
pub struct Postgres {
    /// Folder with the data, the socket and the log.
    folder: PathBuf,
    /// Folder with the server's programs.
    programs: PathBuf,
    supervisor: Mutex<Child>,
}

/// A database of one test, which is removed when this is dropped.
#[derive(Debug)]
pub struct Database<'a> {
    server: &'a Postgres,
    name: String,
}

impl Postgres {
    /// Returns the server that all tests of the process share. The first call starts it.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&["-c", "fsync=off", "-c", "full_page_writes=off"]))
    }

    /// Starts a server with more arguments of `postgres`. Panics if PostgreSQL is not installed or does not start.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_by(&[], arguments)
    }

    /// Starts a server in a network namespace, where it also listens on `address` for all who can reach it. Its socket stays usable from
    /// everywhere on this machine. Panics like [`Postgres::start`].
    pub fn start_in(namespace: &str, address: &str) -> Self {
        let server = Self::start_by(
            &["ip", "netns", "exec", namespace],
            &["-c", &format!("listen_addresses={address}"), "-c", "max_wal_size=256MB"],
        );
        let rule = format!("host all all {address}/24 trust\n");
        let mut rules = std::fs::File::options().append(true).open(server.folder.join("data/pg_hba.conf")).expect("the rules");
        rules.write_all(rule.as_bytes()).expect("the rules can be written");
        server.sql("postgres", "SELECT pg_reload_conf()");
        server
    }

    /// Starts a server by the command `by`, which ends with the name of a program and its arguments.
    fn start_by(by: &[&str], arguments: &[&str]) -> Self {
        let programs = programs();
        let folder = tempfile::Builder::new().prefix("baton-pg-").tempdir().expect("a temporary folder").keep();
        let user = User::unprivileged();
        if let Some(user) = &user {
            std::os::unix::fs::chown(&folder, Some(user.id), Some(user.group)).expect("the folder can be given away");
        }
        let as_user = |program: &Path| User::command(user.as_ref(), program);
        let initdb = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--data-checksums"];
        let made =
            as_user(&programs.join("initdb")).current_dir(&folder).arg("-D").arg(folder.join("data")).args(initdb).output();
        let made = made.expect("initdb can be started");
        assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        let mut supervisor = User::command_by(by, user.as_ref(), Path::new("bash"));
        let supervisor = supervisor
            .args(["-c", SUPERVISOR])
            .arg(programs.join("postgres"))
            .arg(&folder)
            .args(["-p", PORT, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "jit=off"])
            .args(arguments)
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash can be started");
        let server = Self { folder, programs, supervisor: Mutex::new(supervisor) };
        server.start_again();
        server
    }

    /// Kills the server without a chance to write anything (SIGKILL). Connections break.
    pub fn kill(&self) {
        let pid = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("the server runs");
        let pid = pid.lines().next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, Signal::KILL).expect("the server is a process of this program");
    }

    /// Starts the server again after [`Postgres::kill`], and waits until it answers.
    pub fn start_again(&self) {
        let give_up = Instant::now() + START_TIMEOUT;
        let mut asked: Option<Instant> = None;
        while !self.answers() {
            assert!(Instant::now() < give_up, "PostgreSQL does not start: {}", self.log());
            // A second server on the same data refuses to start, so this may be asked again.
            if asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(2)) {
                let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
                supervisor.stdin.as_mut().expect("it is piped").write_all(b"start\n").expect("the supervisor runs");
                asked = Some(Instant::now());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns what the server logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Returns the folder with the socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes an empty database.
    pub fn database(&self) -> Database<'_> {
        static LAST: Mutex<u32> = Mutex::new(0);
        let number = {
            let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            *last += 1;
            *last
        };
        let name = format!("test_{number}");
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        Database { server: self, name }
    }

    /// Executes statements in a database as the superuser, and returns the rows: columns are separated by `|`.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        let answer = self.psql(database, statements);
        assert!(answer.status.success(), "{statements}: {}", String::from_utf8_lossy(&answer.stderr));
        String::from_utf8_lossy(&answer.stdout).trim_end().to_owned()
    }

    fn answers(&self) -> bool {
        self.psql("postgres", "SELECT 1").status.success()
    }

    fn psql(&self, database: &str, statements: &str) -> std::process::Output {
        Command::new(self.programs.join("psql"))
            .args([
                "-X",
                "-q",
                "-A",
                "-t",
                "-v",
                "ON_ERROR_STOP=1",
                "-U",
                "postgres",
                "-p",
                PORT,
                "-d",
                database,
                "-c",
                statements,
            ])
            .arg("-h")
            .arg(&self.folder)
            .output()
            .expect("psql can be started")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        drop(supervisor.stdin.take());
        let _ended = supervisor.wait();
    }
}

impl Database<'_> {
    /// Returns the address, with the folder of the socket as its host.
    pub fn address(&self) -> String {
        let folder = self.server.folder.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{folder}:{PORT}/{}", self.name)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the server.
    pub fn server(&self) -> &Postgres {
        self.server
    }

    /// Executes statements as the superuser; see [`Postgres::sql`].
    pub fn sql(&self, statements: &str) -> String {
        self.server.sql(&self.name, statements)
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        // The server may have been killed by its test.
        let _gone = self.server.psql("postgres", &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// A user who runs the server in place of the superuser, whom PostgreSQL refuses.
pub(crate) struct User {
    pub(crate) id: u32,
    pub(crate) group: u32,
}

impl User {
    /// Returns a command of `program` for `user`, or for the user of this process.
    pub(crate) fn command(user: Option<&Self>, program: &Path) -> Command {
        Self::command_by(&[], user, program)
    }

    /// Returns the same command, started by the command `by`.
    fn command_by(by: &[&str], user: Option<&Self>, program: &Path) -> Command {
        let mut words: Vec<OsString> = by.iter().map(OsString::from).collect();
        if let Some(user) = user {
            let change = ["setpriv", &format!("--reuid={}", user.id), &format!("--regid={}", user.group), "--clear-groups"];
            words.extend(change.map(OsString::from));
        }
        words.push(program.into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// Returns the user `postgres`, else `nobody`; `None` if this process is not the superuser's.
    pub(crate) fn unprivileged() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let users = std::fs::read_to_string("/etc/passwd").expect("there are users");
        let found = |name: &str| {
            let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
            let mut fields = line.split(':').skip(2);
            Some(Self { id: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
        };
        Some(found("postgres").or_else(|| found("nobody")).expect("there is a user postgres or nobody"))
    }
}

/// Returns the folder with the server's programs. Panics if there is none.
fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten().map(|version| version.path().join("bin"));
    let mut versions: Vec<_> = versions.collect();
    versions.sort();
    let has_all = |folder: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|program| folder.join(program).is_file());
    // The newest version, unless another one is in the path.
    let found = std::env::split_paths(&path).chain(versions.into_iter().rev()).find(has_all);
    found.expect("PostgreSQL is installed (apt-get install postgresql; `cargo xtask test` installs it)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_starts_again_after_it_was_killed_and_its_folder_goes_with_it() {
        let server = Postgres::start(&["-c", "fsync=off"]);
        let database = server.database();
        database.sql("CREATE TABLE kept (number int); INSERT INTO kept VALUES (7)");
        server.kill();
        server.start_again();
        assert_eq!(database.sql("SELECT number FROM kept"), "7");
        drop(database);
        let folder = server.folder().to_owned();
        drop(server);
        assert!(!folder.exists());
    }
}
