//! The providers that the program knows, a row each.

use baton_schema::provider::{OfferLimits, Target};
use baton_types::config::Media;

use crate::wire::{Cache, Dialect, Features};

/// The address of a provider whose accounts have an address each. Nothing can have this address (RFC 6761).
pub(super) const NO_ADDRESS: &str = "https://address.invalid";

/// Built-in knowledge about a provider.
#[derive(Debug)]
pub struct Profile {
    /// Its name in `PROVIDER:MODEL`.
    pub name: &'static str,
    /// Its dialect.
    pub dialect: Dialect,
    /// The address before the path of a request; [`NO_ADDRESS`] where each account has its own.
    pub base_url: &'static str,
    /// A variable of the environment that holds another address.
    pub base_url_variable: Option<&'static str>,
    /// The path of a request.
    pub path: &'static str,
    /// Its authentication.
    pub key: KeyRule,
    /// Features that it supports beyond its dialect.
    pub features: Features,
    /// Dialect of the schemas of tools.
    pub schemas: Target,
    /// Limits of the tools of a request.
    pub offers: OfferLimits,
    /// When it holds a model's text to the schema of a result.
    pub results: HeldResults,
    /// Whether a text that is exactly a call is read as that call, unless settings differ. Small models on local servers
    /// write such texts.
    pub calls_in_text: bool,
}

/// When a provider holds a model's text to the schema of a result, as far as that is known. Elsewhere the core's own judgement
/// and its reminder are all there is.
#[derive(Clone, Copy, Debug)]
pub enum HeldResults {
    /// Beside tools, too, by all but older models: calls are made as ever.
    BesideTools(fn(&str) -> bool),
    /// Only without tools: with a result schema, its server would let the model give the result alone and make no
    /// call.
    WithoutTools,
    /// Depends on the server behind it.
    Unknown,
}

impl HeldResults {
    /// Whether a request to `model` may say the schema of its result.
    pub fn holds(self, model: &str, has_tools: bool) -> bool {
        match self {
            Self::BesideTools(knows) => knows(model),
            Self::WithoutTools => !has_tools,
            Self::Unknown => false,
        }
    }
}

/// Whether a model of `OpenAI` is younger than structured outputs, which came with `gpt-4o-2024-08-06`
/// (<https://platform.openai.com/docs/guides/structured-outputs>, supported models).
fn openai_holds(model: &str) -> bool {
    let older = ["gpt-3.5", "gpt-4-", "gpt-4o-2024-05-13", "chatgpt-4o", "o1-mini", "o1-preview"];
    model != "gpt-4" && !older.iter().any(|older| model.starts_with(older))
}

/// Whether a model of Anthropic is younger than structured outputs, which came with Claude 4.5
/// (<https://platform.claude.com/docs/en/build-with-claude/structured-outputs>: they can be used with tools in one request).
fn anthropic_holds(model: &str) -> bool {
    let older = ["claude-1", "claude-2", "claude-3", "claude-instant", "claude-opus-4-1", "claude-opus-4-2", "claude-sonnet-4-2"];
    let is_first_of_four = |name: &str| {
        model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("-0") || rest.starts_with('@'))
    };
    model.starts_with("claude-")
        && !older.iter().any(|older| model.starts_with(older))
        && !["claude-opus-4", "claude-sonnet-4"].into_iter().any(is_first_of_four)
}

/// Beginnings of the names of `OpenAI`'s models that do not reason (<https://platform.openai.com/docs/models>).
const OPENAI_WITHOUT_REASONING: [&str; 6] = ["gpt-3.5", "gpt-4", "chatgpt-", "gpt-5-chat", "gpt-5.1-chat", "gpt-5.2-chat"];

/// Authentication of requests to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRule {
    /// The variable of the environment that holds the key.
    pub variable: &'static str,
    /// The header that carries it: `authorization` carries it as a bearer's.
    pub header: &'static str,
    /// Whether nothing is answered without.
    pub is_required: bool,
}

/// The version of Anthropic's messages that is spoken here.
pub(super) const ANTHROPIC_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// Limits that `OpenAI` answers with: "Invalid 'tools': array too long. Expected an array with maximum length 128",
/// "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024". A function's
/// name has at most 64 characters (<https://platform.openai.com/docs/api-reference/chat/create>).
const OPENAI_CHAT: OfferLimits = OfferLimits { tools: Some(128), name: Some(64), description: Some(1_024) };

/// The limits of `OpenAI`'s other interface, for whose descriptions no limit is known.
const OPENAI_RESPONSES: OfferLimits = OfferLimits { description: None, ..OPENAI_CHAT };

/// Anthropic: "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'". Older models allow 64.
const ANTHROPIC: OfferLimits = OfferLimits { tools: None, name: Some(64), description: None };

/// Limits of servers that have none, or whose limits depend on what is behind them.
const NO_LIMITS: OfferLimits = OfferLimits { tools: None, name: None, description: None };

/// All providers.
pub static PROFILES: [Profile; 19] = [
    Profile {
        name: "anthropic",
        dialect: Dialect::Anthropic,
        base_url: "https://api.anthropic.com/v1",
        base_url_variable: None,
        path: "/messages",
        key: KeyRule { variable: "ANTHROPIC_API_KEY", header: "x-api-key", is_required: true },
        features: features("max_tokens", false, true, true),
        schemas: Target::Anthropic,
        offers: ANTHROPIC,
        results: HeldResults::BesideTools(anthropic_holds),
        calls_in_text: false,
    },
    Profile {
        name: "openai",
        dialect: Dialect::Chat,
        base_url: "https://api.openai.com/v1",
        base_url_variable: None,
        path: "/chat/completions",
        key: bearer("OPENAI_API_KEY", true),
        features: features("max_completion_tokens", true, true, true),
        schemas: Target::OpenAi,
        offers: OPENAI_CHAT,
        results: HeldResults::BesideTools(openai_holds),
        calls_in_text: false,
    },
    Profile {
        name: "openai-responses",
        dialect: Dialect::Responses,
        base_url: "https://api.openai.com/v1",
        base_url_variable: None,
        path: "/responses",
        key: bearer("OPENAI_API_KEY", true),
        features: Features { without_reasoning: &OPENAI_WITHOUT_REASONING, ..features("max_output_tokens", false, true, true) },
        schemas: Target::OpenAi,
        offers: OPENAI_RESPONSES,
        results: HeldResults::BesideTools(openai_holds),
        calls_in_text: false,
    },
    Profile {
        name: "openrouter",
        dialect: Dialect::Chat,
        base_url: "https://openrouter.ai/api/v1",
        base_url_variable: None,
        path: "/chat/completions",
        key: bearer("OPENROUTER_API_KEY", true),
        features: features("max_tokens", true, true, true),
        schemas: Target::Compatible,
        offers: NO_LIMITS,
        results: HeldResults::Unknown,
        calls_in_text: false,
    },
    Profile {
        name: "venice",
        dialect: Dialect::Chat,
        base_url: "https://api.venice.ai/api/v1",
        base_url_variable: None,
        path: "/chat/completions",
        key: bearer("VENICE_API_KEY", true),
        features: features("max_tokens", true, true, false),
        schemas: Target::Compatible,
        offers: NO_LIMITS,
        results: HeldResults::Unknown,
        calls_in_text: false,
    },
    // `format` "will not work with tools as models require other control tokens" (github.com/ollama/ollama/issues/11185).
    Profile {
        name: "ollama",
        dialect: Dialect::Ollama,
        base_url: "http://127.0.0.1:11434",
        base_url_variable: Some("OLLAMA_HOST"),
        path: "/api/chat",
        key: bearer("OLLAMA_API_KEY", false),
        features: features("num_predict", false, true, false),
        schemas: Target::Ollama,
        offers: NO_LIMITS,
        results: HeldResults::WithoutTools,
        calls_in_text: true,
    },
    Profile {
        name: "ollama-openai",
        dialect: Dialect::Chat,
        base_url: "http://127.0.0.1:11434/v1",
        base_url_variable: None,
        path: "/chat/completions",
        key: bearer("OLLAMA_API_KEY", false),
        features: features("max_tokens", true, true, false),
        schemas: Target::Ollama,
        offers: NO_LIMITS,
        results: HeldResults::WithoutTools,
        calls_in_text: true,
    },
    // Its streams report the usage unasked, and it refuses `stream_options`. Ids of calls are nine letters or digits there.
    Profile {
        features: Features { has_short_ids: true, ..features("max_tokens", false, true, false) },
        ..compatible("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY")
    },
    Profile {
        features: features("max_completion_tokens", true, true, false),
        ..compatible("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY")
    },
    Profile {
        features: features("max_completion_tokens", true, true, false),
        ..compatible("xai", "https://api.x.ai/v1", "XAI_API_KEY")
    },
    Profile {
        features: features("max_tokens", true, false, false),
        ..compatible("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY")
    },
    compatible("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    compatible("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    // Gemini behind Google's own form of chat completions; `gemini` alone would be its own protocol.
    compatible("gemini-openai", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    // Azure's address with a version in the path, and a deployment as the model
    // (<https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle>).
    Profile {
        base_url_variable: Some("AZURE_OPENAI_BASE_URL"),
        key: KeyRule { variable: "AZURE_OPENAI_API_KEY", header: "api-key", is_required: true },
        features: features("max_completion_tokens", true, true, true),
        schemas: Target::OpenAi,
        offers: OPENAI_CHAT,
        ..compatible("azure", NO_ADDRESS, "AZURE_OPENAI_API_KEY")
    },
    // The addresses have a region (<https://docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions.html>).
    Profile {
        base_url_variable: Some("BEDROCK_BASE_URL"),
        features: features("max_completion_tokens", true, true, false),
        ..compatible("bedrock", NO_ADDRESS, "AWS_BEARER_TOKEN_BEDROCK")
    },
    // The address has a project and a region, and the key is an access token of an hour
    // (<https://cloud.google.com/vertex-ai/generative-ai/docs/start/openai>).
    Profile { base_url_variable: Some("VERTEX_BASE_URL"), ..compatible("vertex", NO_ADDRESS, "VERTEX_ACCESS_TOKEN") },
    Profile {
        key: bearer("VLLM_API_KEY", false),
        features: features("max_tokens", true, true, false),
        calls_in_text: true,
        ..compatible("vllm", "http://127.0.0.1:8000/v1", "VLLM_API_KEY")
    },
    // llama.cpp's own server, and whatever else speaks chat completions at an address that a config gives. Templates
    // of models are what they are, so contents are what every template knows.
    Profile {
        name: "llamacpp",
        dialect: Dialect::Chat,
        base_url: "http://127.0.0.1:8080/v1",
        base_url_variable: None,
        path: "/chat/completions",
        key: bearer("LLAMACPP_API_KEY", false),
        features: Features { plain_contents: true, ..features("max_tokens", true, true, false) },
        schemas: Target::Compatible,
        offers: NO_LIMITS,
        results: HeldResults::Unknown,
        calls_in_text: true,
    },
];

/// Returns the names of all providers, in order.
pub fn provider_names() -> Vec<&'static str> {
    PROFILES.iter().map(|profile| profile.name).collect()
}

/// Returns the documents that the models of the provider called `name` take, unless a config declares others.
pub fn media_of(name: &str) -> Media {
    Profile::named(name).map_or(Media::ALL, |profile| {
        let Features { images, files, .. } = profile.features;
        Media { images, files }
    })
}

impl Profile {
    /// Returns the provider called `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// Returns the vendor whose reasoning blocks a model accepts: for a router, the maker of the model.
    pub(super) fn vendor(&self, provider: &str, model: &str) -> String {
        match model.split_once('/') {
            Some((maker, _)) if self.dialect == Dialect::Chat => format!("{provider}:{maker}"),
            _ => provider.to_owned(),
        }
    }
}

/// Returns the profile of a server of chat completions with a key.
const fn compatible(name: &'static str, base_url: &'static str, variable: &'static str) -> Profile {
    Profile {
        name,
        dialect: Dialect::Chat,
        base_url,
        base_url_variable: None,
        path: "/chat/completions",
        key: bearer(variable, true),
        features: features("max_tokens", true, true, false),
        schemas: Target::Compatible,
        offers: NO_LIMITS,
        results: HeldResults::Unknown,
        calls_in_text: false,
    }
}

const fn bearer(variable: &'static str, is_required: bool) -> KeyRule {
    KeyRule { variable, header: "authorization", is_required }
}

const fn features(output_limit: &'static str, asks_for_usage: bool, images: bool, files: bool) -> Features {
    Features {
        output_limit,
        asks_for_usage,
        images,
        files,
        plain_contents: false,
        has_short_ids: false,
        without_reasoning: &[],
        cache: Cache::Usual,
        frames: true,
    }
}
