//! The dialects of providers.

use std::fmt;

/// Dialect of a compiled schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// `OpenAI`: strict where the schema can be expressed.
    OpenAi,
    /// Compatible with `OpenAI`'s protocol, possibly without strict tools.
    Compatible,
    /// Anthropic.
    Anthropic,
    /// Ollama's server, by either of its protocols.
    Ollama,
    /// Clients of the Model Context Protocol.
    Mcp,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenAi => "openai",
            Self::Compatible => "servers like openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
            Self::Mcp => "mcp",
        })
    }
}
