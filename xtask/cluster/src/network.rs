//! A network of its own: a bridge and one network namespace for each node, on private addresses.
//!
//! The bridge is in a namespace too, so nothing of the machine's own network changes. A node is cut off by taking its port of the bridge
//! down, as if its cable were pulled: packets are dropped, and no connection is closed.
//!
//! A process of its own, the keeper, ends the processes in the namespaces and removes the namespaces. It does so when the [`Network`] is
//! dropped, and also when this program is killed.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail, ensure};

/// The first three numbers of all addresses.
const PREFIX: &str = "10.213.77";

/// Waits for the end of its input. Then it ends the processes of each namespace in its arguments, and removes the namespace. The processes
/// get a while to end by themselves: the database ends with the program that started it.
const KEEPER: &str = r#"
read -r _end
for namespace in "$@"; do
    for _ in {1..300}; do
        case "$namespace" in *-database) ;; *) break ;; esac
        [ -z "$(ip netns pids "$namespace" 2>/dev/null)" ] && break
        sleep 0.1
    done
    for pid in $(ip netns pids "$namespace" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
    ip netns del "$namespace" 2>/dev/null
done
exit 0
"#;

/// Asks a server on the loopback interface of a namespace for a page.
const GET: &str = r#"exec 3<>"/dev/tcp/127.0.0.1/$1" && printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3 && cat <&3"#;

/// A node of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    namespace: String,
}

/// Namespaces that are joined by a bridge. They are removed when this is dropped.
#[derive(Debug)]
pub struct Network {
    switch: String,
    nodes: Vec<Node>,
    keeper: Child,
}

/// The machine does not permit namespaces. Nothing was tried then.
#[derive(Debug, thiserror::Error)]
#[error("network namespaces cannot be made here: {reason}. They need Linux, the program `ip` (iproute2) and the rights of root")]
pub struct Unavailable {
    reason: String,
}

impl Network {
    /// Makes a network with a node for each name. Names consist of letters and digits, and the last letter or digit of the address is the
    /// place in `names`.
    ///
    /// # Errors
    /// [`Unavailable`] if the machine permits no namespaces.
    pub fn new(names: &[&str]) -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let own = format!("baton-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let switch = format!("{own}-switch");
        let node = |(place, name): (usize, &&str)| Node {
            name: (*name).to_owned(),
            address: format!("{PREFIX}.{}", place + 11),
            namespace: format!("{own}-{name}"),
        };
        let nodes: Vec<Node> = names.iter().enumerate().map(node).collect();
        let mut keeper = Command::new("bash");
        keeper.args(["-c", KEEPER, "keeper"]).args(nodes.iter().map(|node| &node.namespace)).arg(&switch);
        // Ctrl-C is for this program alone: the keeper ends after it.
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let keeper = keeper.spawn().context("bash cannot be started")?;
        let network = Self { switch, nodes, keeper };
        network.make().map_err(|error| Unavailable { reason: format!("{error:#}") })?;
        Ok(network)
    }

    fn make(&self) -> anyhow::Result<()> {
        let switch = self.switch.as_str();
        ip(&["netns", "add", switch])?;
        ip(&["-n", switch, "link", "add", "name", "bridge", "type", "bridge"])?;
        ip(&["-n", switch, "link", "set", "dev", "bridge", "up"])?;
        for Node { name, address, namespace } in &self.nodes {
            let port = port(name);
            ip(&["netns", "add", namespace])?;
            ip(&["-n", switch, "link", "add", "name", &port, "type", "veth", "peer", "name", "eth0", "netns", namespace])?;
            ip(&["-n", switch, "link", "set", "dev", &port, "master", "bridge", "up"])?;
            ip(&["-n", namespace, "link", "set", "dev", "lo", "up"])?;
            ip(&["-n", namespace, "address", "add", &format!("{address}/24"), "dev", "eth0"])?;
            ip(&["-n", namespace, "link", "set", "dev", "eth0", "up"])?;
        }
        Ok(())
    }

    /// Returns the node with this name. Panics if there is none.
    pub fn node(&self, name: &str) -> &Node {
        self.nodes.iter().find(|node| node.name == name).expect("a node of this network")
    }

    /// Cuts a node off.
    pub fn cut(&self, name: &str) -> anyhow::Result<()> {
        ip(&["-n", &self.switch, "link", "set", "dev", &port(name), "down"])
    }

    /// Connects a node again.
    pub fn join(&self, name: &str) -> anyhow::Result<()> {
        ip(&["-n", &self.switch, "link", "set", "dev", &port(name), "up"])
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ended = self.keeper.wait();
    }
}

impl Node {
    /// Returns the name of its namespace, as `ip netns` knows it.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns a command of `program` on this node. The process has the id of the child: `ip` is replaced by the program.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program).stdin(Stdio::null());
        command
    }

    /// Returns the body of a page of a server that listens on the loopback interface of this node.
    pub fn get(&self, port: u16, path: &str) -> anyhow::Result<String> {
        let mut get = self.command("timeout");
        let answer = get.args(["5", "bash", "-c", GET, "get", &port.to_string(), path]).output().context("timeout")?;
        ensure!(answer.status.success(), "{} has no page {path}", self.name);
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        Ok(text.split_once("\r\n\r\n").context("an answer without a body")?.1.to_owned())
    }
}

/// Returns the name of a node's port of the bridge.
fn port(name: &str) -> String {
    format!("to-{name}")
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let Output { status, stderr, .. } =
        Command::new("ip").args(arguments).stdin(Stdio::null()).output().context("ip cannot be started")?;
    if !status.success() {
        bail!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&stderr).trim());
    }
    Ok(())
}
