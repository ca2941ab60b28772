//! Three NATS servers with JetStream, each on its node. Streams have three copies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::network::{Network, Node};
use crate::process::Process;

/// The nodes of the servers.
pub(crate) const SERVERS: [&str; 3] = ["n1", "n2", "n3"];

/// Port for clients.
const PORT: u16 = 4222;

/// Port on which a server reports its state, on the loopback interface of its node.
const MONITOR: u16 = 8222;

/// Longest time until the servers are one cluster again.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// The cluster of servers.
#[derive(Debug)]
pub struct Bus {
    nodes: Vec<Node>,
    folder: PathBuf,
    servers: BTreeMap<String, Process>,
}

impl Bus {
    /// Starts the servers, with their data in `folder`, and waits until they have a leader.
    pub fn start(network: &Network, folder: &Path) -> anyhow::Result<Self> {
        let nodes: Vec<Node> = SERVERS.iter().map(|name| network.node(name).clone()).collect();
        let mut bus = Self { nodes, folder: folder.to_owned(), servers: BTreeMap::new() };
        for name in SERVERS {
            bus.start_server(name)?;
        }
        bus.wait_until_whole()?;
        Ok(bus)
    }

    /// Returns the address that names all servers.
    pub fn address(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("{}:{PORT}", node.address)).collect();
        format!("nats://{}", hosts.join(","))
    }

    /// Starts one server.
    pub fn start_server(&mut self, name: &str) -> anyhow::Result<()> {
        let node = self.node(name)?;
        let route = |node: &Node| format!("\"nats://{}:6222\"", node.address);
        let routes: Vec<String> = self.nodes.iter().filter(|other| *other != node).map(route).collect();
        let config = format!(
            "server_name: {name}\nlisten: \"{address}:{PORT}\"\nhttp: \"127.0.0.1:{MONITOR}\"\n\
             jetstream {{ store_dir: \"{folder}/{name}\" }}\n\
             cluster {{ name: baton, listen: \"{address}:6222\", routes: [{routes}] }}\n",
            address = node.address,
            folder = self.folder.display(),
            routes = routes.join(", "),
        );
        let file = self.folder.join(format!("{name}.conf"));
        std::fs::write(&file, config).context("the config of a NATS server cannot be written")?;
        let mut command = node.command(baton_servers::nats_server());
        command.arg("--config").arg(&file);
        let server = Process::start(name, command, &self.folder.join(format!("{name}.log")))?;
        self.servers.insert(name.to_owned(), server);
        Ok(())
    }

    /// Stops one server as an operator does.
    pub fn stop_server(&mut self, name: &str) -> anyhow::Result<()> {
        let server = self.servers.remove(name).with_context(|| format!("{name} does not run"))?;
        server.stop().map(drop)
    }

    /// Waits until each server has the others and all its copies are current.
    pub fn wait_until_whole(&self) -> anyhow::Result<()> {
        let give_up = Instant::now() + START_TIMEOUT;
        while !self.nodes.iter().all(Self::is_healthy) {
            ensure!(Instant::now() < give_up, "the NATS servers have not become one cluster after {} s", START_TIMEOUT.as_secs());
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// Returns the leader of each stream, as the server `name` sees it.
    pub fn leaders(&self, name: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let state = Self::state(self.node(name)?)?;
        let accounts = state["account_details"].as_array().into_iter().flatten();
        let streams = accounts.flat_map(|account| account["stream_detail"].as_array().into_iter().flatten());
        let leader =
            |stream: &Value| Some((stream["name"].as_str()?.to_owned(), stream["cluster"]["leader"].as_str()?.to_owned()));
        Ok(streams.filter_map(leader).collect())
    }

    /// Returns the server that leads most streams, and the one that leads fewest.
    pub fn leader_and_follower(&self) -> anyhow::Result<(String, String)> {
        let leaders = self.leaders(SERVERS[0])?;
        ensure!(!leaders.is_empty(), "no stream has a leader");
        let leads = |name: &&str| leaders.values().filter(|leader| leader == name).count();
        let most = SERVERS.into_iter().max_by_key(leads).context("a server")?;
        let fewest = SERVERS.into_iter().min_by_key(leads).context("a server")?;
        Ok((most.to_owned(), fewest.to_owned()))
    }

    fn node(&self, name: &str) -> anyhow::Result<&Node> {
        self.nodes.iter().find(|node| node.name == name).with_context(|| format!("{name} is not one of the servers"))
    }

    fn state(node: &Node) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&node.get(MONITOR, "/jsz?streams=true")?)?)
    }

    /// Whether a server answers, and knows a leader and both other servers.
    fn is_healthy(node: &Node) -> bool {
        let is_ok = node.get(MONITOR, "/healthz").is_ok_and(|text| text.contains("\"ok\""));
        let is_joined = |state: Value| {
            let cluster = &state["meta_cluster"];
            cluster["leader"].is_string() && cluster["cluster_size"] == SERVERS.len()
        };
        is_ok && Self::state(node).is_ok_and(is_joined)
    }
}
