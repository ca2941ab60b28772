//! `PgBouncer` in front of a PostgreSQL server.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::Database;
use crate::postgres::{PORT, User};

/// The port in the name of the pooler's socket.
const POOLER_PORT: &str = "6432";

/// Longest time until the pooler listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Ends the pooler at the end of its input, which is the end of the test program.
const SUPERVISOR: &str = r#"
"$0" "$1" >/dev/null 2>&1 </dev/null &
read -r _end
kill -TERM $!
"#;

/// A pooler that gives each transaction any connection to the server. It ends when it is dropped, or with the process.
#[derive(Debug)]
pub struct Pooler {
    supervisor: Child,
    folder: PathBuf,
}

impl Pooler {
    /// Starts a pooler for the server of `database`, with `connections` to it. Panics if `PgBouncer` is not installed or does not start.
    pub fn start(database: &Database<'_>, connections: u32) -> Self {
        let program = program();
        let folder = tempfile::Builder::new().prefix("baton-pool-").tempdir().expect("a temporary folder").keep();
        let settings = format!(
            "[databases]\n* = host={} port={PORT} user=postgres\n[pgbouncer]\nlisten_addr =\nlisten_port = {POOLER_PORT}\n\
             unix_socket_dir = {folder}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = {connections}\n\
             max_client_conn = 200\nlogfile = {folder}/log\n",
            database.server().folder().display(),
            folder = folder.display(),
        );
        let file = folder.join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("a file");
        let user = User::unprivileged();
        for path in [&file, &folder] {
            if let Some(user) = &user {
                std::os::unix::fs::chown(path, Some(user.id), Some(user.group)).expect("the file can be given away");
            }
        }
        let mut command = User::command(user.as_ref(), Path::new("bash"));
        command.args(["-c", SUPERVISOR]).arg(program).arg(&file).current_dir(&folder);
        let supervisor = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let pooler = Self { supervisor: supervisor.expect("bash can be started"), folder };
        let give_up = Instant::now() + START_TIMEOUT;
        while !pooler.folder.join(format!(".s.PGSQL.{POOLER_PORT}")).exists() {
            let log = || std::fs::read_to_string(pooler.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < give_up, "PgBouncer does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        pooler
    }

    /// Returns the address of `database` by way of the pooler.
    pub fn address(&self, database: &Database<'_>) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{folder}:{POOLER_PORT}/{}", database.name())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ended = self.supervisor.wait();
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the program. Debian installs it where the paths of most users do not lead.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders.map(|folder| folder.join("pgbouncer")).find(|program| program.is_file());
    found.expect("PgBouncer is installed (apt-get install pgbouncer; `cargo xtask test` installs it)")
}
