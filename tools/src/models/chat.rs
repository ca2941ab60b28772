//! `openrouter`, `venice` and `ollama_local`: a conversation in, an answer out.

use baton_macros::tool;
use baton_tool::{ModelAsk, ToolContext, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Choice, ModelSettings, UsageOutput, asked, cost_estimate, is_cut};

/// Default provider of `ollama_local`.
const OLLAMA: &str = "ollama";

/// Author of a message.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Speaker {
    System,
    User,
    Assistant,
}

/// A message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ChatMessage {
    role: Speaker,
    content: String,
}

/// Output of the tools.
#[derive(Debug, Serialize)]
struct ChatOutput {
    content: String,
    model: String,
    usage: UsageOutput,
    /// In US dollars; `null` where no price is known.
    cost_estimate: Option<f64>,
    /// Whether the answer was cut at `max_tokens`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// Asks a model at OpenRouter.
#[tool]
async fn openrouter(
    context: &ToolContext,
    messages: Vec<ChatMessage>,
    model: Option<String>,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    config_id: Option<String>,
) -> Result<ChatOutput, ToolError> {
    let choice = Choice { model, temperature, top_p: None, max_tokens };
    chat(context, "openrouter", messages, choice, config_id.as_deref()).await
}

/// Asks a model at Venice.
#[tool]
async fn venice(
    context: &ToolContext,
    messages: Vec<ChatMessage>,
    model: Option<String>,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    config_id: Option<String>,
) -> Result<ChatOutput, ToolError> {
    let choice = Choice { model, temperature, top_p: None, max_tokens };
    chat(context, "venice", messages, choice, config_id.as_deref()).await
}

/// Asks a model of an Ollama.
#[tool]
async fn ollama_local(
    context: &ToolContext,
    messages: Vec<ChatMessage>,
    model: Option<String>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    ollama_host: Option<String>,
) -> Result<ChatOutput, ToolError> {
    let host = ollama_host.as_deref().unwrap_or(OLLAMA);
    if host.contains("://") || host.contains(['/', '.']) {
        // An agent that could name addresses could reach whatever this machine can.
        let message =
            "ollama_host is a provider's name in models.json, not an address; set the address in models.json or in OLLAMA_HOST";
        return Err(ToolError::new(message).of_kind(ToolErrorKind::InvalidInput));
    }
    let choice = Choice { model, temperature, top_p, max_tokens: None };
    let mut answer = chat(context, host, messages, choice, None).await.map_err(|error| {
        let hint = if error.message.contains("cannot be reached") { ". Is Ollama running?" } else { "" };
        ToolError { message: format!("{}{hint}", error.message), ..error }
    })?;
    // This machine sends no bill.
    answer.cost_estimate = Some(answer.cost_estimate.unwrap_or(0.0));
    Ok(answer)
}

async fn chat(
    context: &ToolContext,
    provider: &str,
    messages: Vec<ChatMessage>,
    choice: Choice,
    config_id: Option<&str>,
) -> Result<ChatOutput, ToolError> {
    let settings: ModelSettings = context.settings()?;
    let choice = choice.or(settings.config(config_id)?).or(context.settings()?);
    let reply = asked(context, conversation(choice.ask(provider)?, messages)?).await?;
    let (cost_estimate, truncated) = (cost_estimate(&reply), is_cut(&reply));
    Ok(ChatOutput { content: reply.text, model: reply.model, usage: reply.usage.into(), cost_estimate, truncated })
}

/// Returns `ask` with the conversation. System messages count at any position.
fn conversation(mut ask: ModelAsk, messages: Vec<ChatMessage>) -> Result<ModelAsk, ToolError> {
    for message in messages {
        ask = match message.role {
            Speaker::System if ask.system.is_empty() => ask.system(message.content),
            Speaker::System => {
                let system = format!("{}\n\n{}", ask.system, message.content);
                ask.system(system)
            }
            Speaker::User => ask.user(message.content),
            Speaker::Assistant => ask.assistant(message.content),
        };
    }
    if ask.messages.is_empty() {
        let message = "messages must have at least one message of the role user or assistant";
        return Err(ToolError::new(message).of_kind(ToolErrorKind::InvalidInput));
    }
    Ok(ask)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use baton_tool::ModelReply;
    use baton_tool::testing::block_on;
    use baton_types::model::{FinishReason, Usage};
    use baton_types::money::Money;
    use serde_json::{Value, json};

    use super::*;

    /// Returns a context whose model records its requests.
    fn noting(settings: Value) -> (ToolContext, Arc<Mutex<Vec<ModelAsk>>>) {
        let asks: Arc<Mutex<Vec<ModelAsk>>> = Arc::default();
        let noted = Arc::clone(&asks);
        let context = ToolContext::for_test().with_settings(settings).with_model(move |ask| {
            noted.lock().unwrap().push(ask.clone());
            Ok(ModelReply {
                text: "Hello.".to_owned(),
                model: "maker/model-2026".to_owned(),
                finish: FinishReason::Stop,
                usage: Usage { input_tokens: 12, output_tokens: 3, ..Usage::default() },
                cost: (!ask.model.contains("unpriced")).then(|| Money::from_usd(0.25)),
            })
        });
        (context.build(), asks)
    }

    fn say(messages: Value) -> Vec<ChatMessage> {
        serde_json::from_value(messages).unwrap()
    }

    fn hello() -> Vec<ChatMessage> {
        say(json!([{"role": "user", "content": "Hi."}]))
    }

    fn defaults() -> Value {
        json!({"model": "google/default", "temperature": 0.7, "max_tokens": 4000,
            "configs": {"cheap": {"model": "small", "max_tokens": 10}}})
    }

    #[test]
    fn the_call_outranks_the_configuration_and_that_the_settings() {
        let (context, asks) = noting(defaults());
        let ask = |model: Option<&str>, max_tokens, config: Option<&str>| {
            let (model, config) = (model.map(str::to_owned), config.map(str::to_owned));
            block_on(openrouter(&context, hello(), model, None, max_tokens, config)).unwrap();
            let ask = asks.lock().unwrap().pop().unwrap();
            (ask.model, Value::Object(ask.settings))
        };
        let settings = |temperature: f64, max_tokens: u32| json!({"temperature": temperature, "max_tokens": max_tokens});
        assert_eq!(ask(None, None, None), ("openrouter:google/default".to_owned(), settings(0.7, 4000)));
        assert_eq!(ask(None, None, Some("cheap")), ("openrouter:small".to_owned(), settings(0.7, 10)));
        assert_eq!(ask(Some("a/b"), Some(5), Some("cheap")), ("openrouter:a/b".to_owned(), settings(0.7, 5)));
        let unknown = block_on(openrouter(&context, hello(), None, None, None, Some("rich".to_owned()))).unwrap_err();
        assert_eq!((unknown.message.as_str(), unknown.kind), ("there is no configuration rich", ToolErrorKind::InvalidInput));
        assert_eq!(unknown.detail.value(), json!({"known_configurations": ["cheap"]}));
    }

    #[test]
    fn an_answer_tells_who_gave_it_and_what_it_cost() {
        let (context, _) = noting(defaults());
        let answer = block_on(venice(&context, hello(), None, None, None, None)).unwrap();
        let expected = json!({"content": "Hello.", "model": "maker/model-2026", "cost_estimate": 0.25,
            "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}});
        assert_eq!(serde_json::to_value(answer).unwrap(), expected);
        let unpriced = block_on(venice(&context, hello(), Some("unpriced".to_owned()), None, None, None)).unwrap();
        assert_eq!(unpriced.cost_estimate, None, "what is not known is not nothing");
    }

    #[test]
    fn what_the_system_says_is_kept_apart_and_in_order() {
        let (context, asks) = noting(defaults());
        let talk = say(json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": "Yes?"}, {"role": "system", "content": "In German."}, {"role": "user", "content": "Why?"}]));
        block_on(openrouter(&context, talk, None, None, None, None)).unwrap();
        let expected = ModelAsk::of("").user("Hi.").assistant("Yes?").user("Why?");
        let ask = asks.lock().unwrap().pop().unwrap();
        assert_eq!((ask.system.as_str(), ask.messages), ("Be brief.\n\nIn German.", expected.messages));
        for silent in [json!([]), json!([{"role": "system", "content": "Be brief."}])] {
            let error = block_on(openrouter(&context, say(silent), None, None, None, None)).unwrap_err();
            assert_eq!(error.kind, ToolErrorKind::InvalidInput);
        }
    }

    #[test]
    fn an_ollama_is_chosen_by_name_and_never_by_address() {
        let (context, asks) = noting(json!({"model": "llama3.1:8b", "temperature": 0.7, "top_p": 0.9}));
        let ask = |host: Option<&str>| block_on(ollama_local(&context, hello(), None, None, None, host.map(str::to_owned)));
        ask(None).unwrap();
        assert_eq!(asks.lock().unwrap().pop().unwrap().model, "ollama:llama3.1:8b");
        ask(Some("workstation")).unwrap();
        assert_eq!(asks.lock().unwrap().pop().unwrap().model, "workstation:llama3.1:8b");
        for address in ["http://169.254.169.254", "10.0.0.1:11434", "localhost/api"] {
            assert_eq!(ask(Some(address)).unwrap_err().kind, ToolErrorKind::InvalidInput, "{address}");
        }
        assert!(asks.lock().unwrap().is_empty());
    }

    #[test]
    fn an_empty_answer_is_an_error() {
        let context = ToolContext::for_test().with_settings(defaults()).with_answers([" \n"]).build();
        let error = block_on(openrouter(&context, hello(), None, None, None, None)).unwrap_err();
        assert_eq!(error.message, "openrouter:google/default: its answer is empty");
    }
}
