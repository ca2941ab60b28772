//! Settings of the browser tool, and its time limits.

use std::time::Duration;

use baton_tool::ToolError;
use serde::{Deserialize, Serialize};

use super::super::guard::Allowed;

/// Time for a command that needs no network and no script.
pub(super) const SHORT: Duration = Duration::from_secs(5);
/// Time for the steps that open a page. A busy machine takes long to start a process.
pub(super) const OPEN: Duration = Duration::from_secs(20);

/// Settings of the tool.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct BrowserSettings {
    /// The browser's program: its name in `PATH`, or its path.
    pub(super) browser: Option<String>,
    /// Hosts that may be asked although they are not public.
    #[serde(default)]
    allow_hosts: Vec<String>,
    /// Ports that may be asked beside those of the web.
    #[serde(default)]
    allow_ports: Vec<u16>,
}

impl BrowserSettings {
    /// Returns the hosts and ports that pages may reach.
    pub(super) fn allowed(&self) -> Result<Allowed, ToolError> {
        let allowed = Allowed::parse(self.allow_hosts.iter().map(String::as_str), self.allow_ports.clone());
        allowed.map_err(|error| ToolError::new(format!("allow_hosts of the tool's settings: {error}")))
    }

    /// Returns a text that two settings share only if they are equal.
    pub(super) fn key(&self) -> String {
        serde_json::to_string(self).expect("settings are JSON")
    }
}
