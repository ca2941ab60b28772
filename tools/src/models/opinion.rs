//! `ask_gpt` and `ask_claude`: a question to a model that is not the agent's own.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use serde::Serialize;

use super::{Choice, ModelSettings, UsageOutput, asked, cost_estimate, is_cut};

/// Output of the tools.
#[derive(Debug, Serialize)]
struct Opinion {
    answer: String,
    model: String,
    usage: UsageOutput,
    /// In US dollars; `null` where no price is known.
    cost_estimate: Option<f64>,
    /// Whether the answer was cut at `max_tokens`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// Asks a model of OpenAI.
#[tool]
async fn ask_gpt(
    this: &ToolContext,
    question: String,
    context: Option<String>,
    model: Option<String>,
    max_tokens: Option<u32>,
) -> Result<Opinion, ToolError> {
    opinion(this, question, context, Choice { model, max_tokens, ..Choice::default() }).await
}

/// Asks a model of Anthropic.
#[tool]
async fn ask_claude(
    this: &ToolContext,
    question: String,
    context: Option<String>,
    model: Option<String>,
    max_tokens: Option<u32>,
) -> Result<Opinion, ToolError> {
    opinion(this, question, context, Choice { model, max_tokens, ..Choice::default() }).await
}

async fn opinion(this: &ToolContext, question: String, context: Option<String>, choice: Choice) -> Result<Opinion, ToolError> {
    if question.trim().is_empty() {
        return Err(ToolError::new("question must not be empty").of_kind(ToolErrorKind::InvalidInput));
    }
    let settings: ModelSettings = this.settings()?;
    let mut ask = choice.or(this.settings()?).ask(&settings.provider)?;
    if let Some(context) = context.filter(|context| !context.trim().is_empty()) {
        ask = ask.user(format!("Context:\n{context}\n\nQuestion:\n{question}"));
    } else {
        ask = ask.user(question);
    }
    let reply = asked(this, ask).await?;
    let (cost_estimate, truncated) = (cost_estimate(&reply), is_cut(&reply));
    Ok(Opinion { answer: reply.text, model: reply.model, usage: reply.usage.into(), cost_estimate, truncated })
}

#[cfg(test)]
mod tests {
    use baton_tool::testing::block_on;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_is_asked_with_its_context() {
        let context = ToolContext::for_test()
            .with_settings(json!({"provider": "openai", "model": "gpt-5", "max_tokens": 4000}))
            .with_model(|ask| Err(ToolError::new(format!("{} {:?} {:?}", ask.model, ask.messages[0].parts, ask.settings))))
            .build();
        let told = |question: &str, about: &str, model: Option<&str>| {
            let (question, about, model) = (question.to_owned(), Some(about.to_owned()), model.map(str::to_owned));
            block_on(ask_gpt(&context, question, about, model, None)).unwrap_err().message
        };
        let expected = "openai:gpt-5 [Request(\"Context:\\nA.\\n\\nQuestion:\\nWhy?\")] {\"max_tokens\": Number(4000)}";
        assert_eq!(told("Why?", "A.", None), expected);
        assert!(told("Why?", "", Some("gpt-5-mini")).starts_with("openai:gpt-5-mini [Request(\"Why?\")]"));
        assert_eq!(told(" ", "", None), "question must not be empty");
    }
}
