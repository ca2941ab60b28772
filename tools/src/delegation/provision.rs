//! `provision_agent`: gives an agent of the job an id under which its conversation continues.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError};
use baton_types::id::{MAX_ID_LENGTH, is_valid_id};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::agents::Agents;
use super::{delegation, invalid};

/// The way to provision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// An agent that is there already is taken.
    Ensure,
    /// The id must be free.
    Create,
    /// The agent begins with the conversation of another one.
    Derive,
}

/// An agent with an id.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the outputs of the tool")]
struct Agent {
    agent_id: String,
    profile_name: String,
    /// Whether the call has made it.
    created: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    derived_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    tags: Vec<String>,
    metadata: Map<String, Value>,
}

/// Gives an agent of the job the id `agent_id`.
#[tool]
async fn provision_agent(
    context: &ToolContext,
    action: Action,
    agent_id: String,
    profile_name: Option<String>,
    derived_from: Option<String>,
    display_name: Option<String>,
    tags: Option<Vec<String>>,
    metadata: Option<Map<String, Value>>,
) -> Result<Agent, ToolError> {
    if !is_valid_id(&agent_id) {
        let shown: String = agent_id.chars().take(MAX_ID_LENGTH).collect();
        let message = format!("{shown:?} cannot be an id: use at most {MAX_ID_LENGTH} small letters, digits, '_' and '-'");
        return Err(invalid(message));
    }
    let agents = Agents::read(context).await?;
    let known = agents.find(&agent_id);
    if let (Some(known), Action::Create | Action::Derive) = (known, action) {
        return Err(invalid(format!("there is an agent {agent_id:?}, of the profile {}", known.profile)));
    }
    let profile = match (action, profile_name, &derived_from) {
        (Action::Derive, None, Some(from)) => match agents.find(from) {
            Some(derived) => derived.profile.clone(),
            None => return Err(invalid(format!("there is no agent {from:?} to derive from"))),
        },
        (Action::Derive, ..) => return Err(invalid("derive needs derived_from, and no profile_name: the profile is the same")),
        (_, Some(profile), None) => profile,
        (Action::Ensure | Action::Create, ..) => return Err(invalid("ensure and create need profile_name, and no derived_from")),
    };
    if let Some(known) = known.filter(|known| known.profile != profile) {
        return Err(invalid(format!("there is an agent {agent_id:?}, of the profile {}", known.profile)));
    }
    // Nothing is called: the profile must be one that the agent may delegate to.
    context.check_ahead(vec![delegation(&profile, "")]).await?;
    let (tags, metadata) = (tags.unwrap_or_default(), metadata.unwrap_or_default());
    Ok(Agent { created: known.is_none(), agent_id, profile_name: profile, derived_from, display_name, tags, metadata })
}
