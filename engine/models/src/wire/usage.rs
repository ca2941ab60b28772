//! Token counts of an answer as servers report them: the place of each count, and what it includes.

use baton_types::model::Usage;
use serde_json::Value;

use super::value::count;

/// The places of counts in a body or an event. Where there are several, the first that is there counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UsageForm {
    /// Tokens of the request, cached ones included.
    input: &'static [&'static str],
    /// Tokens of the answer.
    output: &'static [&'static str],
    /// Tokens of the request that were cached.
    cached: &'static [&'static str],
    /// Tokens of the reasoning.
    reasoning: &'static [&'static str],
    /// Sum of the request and of all of the answer. It shows whether the output includes the reasoning.
    total: &'static [&'static str],
}

/// Chat completions.
///
/// - `x_groq`: Groq's streams (<https://console.groq.com/docs/api-reference>).
/// - `cached_tokens` beside the other counts: Moonshot. `prompt_cache_hit_tokens`: `DeepSeek`
///   (<https://api-docs.deepseek.com/guides/kv_cache>).
/// - The output of xAI (<https://docs.x.ai/docs/guides/reasoning>) and of Gemini's `OpenAI` endpoint leaves the reasoning out. It is in
///   the total alone.
pub(super) const CHAT: UsageForm = UsageForm {
    input: &["/usage/prompt_tokens", "/x_groq/usage/prompt_tokens"],
    output: &["/usage/completion_tokens", "/x_groq/usage/completion_tokens"],
    cached: &[
        "/usage/prompt_tokens_details/cached_tokens",
        "/usage/cached_tokens",
        "/usage/prompt_cache_hit_tokens",
        "/x_groq/usage/prompt_tokens_details/cached_tokens",
    ],
    reasoning: &[
        "/usage/completion_tokens_details/reasoning_tokens",
        "/usage/reasoning_tokens",
        "/x_groq/usage/completion_tokens_details/reasoning_tokens",
    ],
    total: &["/usage/total_tokens", "/x_groq/usage/total_tokens"],
};

/// `OpenAI`'s responses.
pub(super) const RESPONSES: UsageForm = UsageForm {
    input: &["/usage/input_tokens"],
    output: &["/usage/output_tokens"],
    cached: &["/usage/input_tokens_details/cached_tokens"],
    reasoning: &["/usage/output_tokens_details/reasoning_tokens"],
    total: &[],
};

/// Ollama's own protocol.
pub(super) const OLLAMA: UsageForm =
    UsageForm { input: &["/prompt_eval_count"], output: &["/eval_count"], cached: &[], reasoning: &[], total: &[] };

impl UsageForm {
    /// Returns the usage in `value`; `None` if neither input nor output is known.
    pub(super) fn read(&self, value: &Value) -> Option<Usage> {
        let first = |places: &[&str]| places.iter().find_map(|place| count(value, place));
        let (input, output, reasoning) = (first(self.input), first(self.output), first(self.reasoning));
        let beside = first(self.total).and_then(|total| total.checked_sub(input?)?.checked_sub(output?)).unwrap_or(0);
        let is_beside = beside > 0 && reasoning.is_none_or(|reasoning| reasoning == beside);
        let reasoning = if is_beside { Some(beside) } else { reasoning };
        let output = output.map(|output| if is_beside { output.saturating_add(beside) } else { output });
        usage(input, output, first(self.cached), reasoning)
    }
}

/// Returns the usage with these counts; `None` if neither input nor output is known.
pub(super) fn usage(input: Option<u64>, output: Option<u64>, cached: Option<u64>, reasoning: Option<u64>) -> Option<Usage> {
    if input.is_none() && output.is_none() {
        return None;
    }
    let (input_tokens, output_tokens) = (input.unwrap_or(0), output.unwrap_or(0));
    Some(Usage {
        input_tokens,
        output_tokens,
        cached_tokens: cached.unwrap_or(0).min(input_tokens),
        reasoning_tokens: reasoning.unwrap_or(0).min(output_tokens),
        estimated: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_server_counts_in_its_own_way() {
        let details = |tokens: u64| json!({"reasoning_tokens": tokens});
        let cached = |tokens: u64| json!({"cached_tokens": tokens});
        for (server, report, expected) in [
            (
                "OpenAI",
                json!({"usage": {"prompt_tokens": 12, "completion_tokens": 240, "total_tokens": 252, "completion_tokens_details": details(228), "prompt_tokens_details": cached(4)}}),
                [12, 240, 4, 228],
            ),
            (
                "xAI",
                json!({"usage": {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 241, "completion_tokens_details": details(228)}}),
                [12, 229, 0, 228],
            ),
            ("Gemini", json!({"usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 65}}), [10, 55, 0, 50]),
            (
                "Moonshot",
                json!({"usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107, "cached_tokens": 64}}),
                [100, 7, 64, 0],
            ),
            (
                "DeepSeek",
                json!({"usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}}),
                [100, 7, 64, 0],
            ),
            (
                "Groq",
                json!({"x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 30, "total_tokens": 39, "completion_tokens_details": details(20)}}}),
                [9, 30, 0, 20],
            ),
            (
                "a total of something else",
                json!({"usage": {"prompt_tokens": 9, "completion_tokens": 30, "total_tokens": 50, "completion_tokens_details": details(20)}}),
                [9, 30, 0, 20],
            ),
            (
                "a total that is too small",
                json!({"usage": {"prompt_tokens": 9, "completion_tokens": 30, "total_tokens": 5}}),
                [9, 30, 0, 0],
            ),
        ] {
            let usage = CHAT.read(&report).expect(server);
            assert_eq!(
                [usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens],
                expected,
                "{server}"
            );
        }
        assert_eq!(CHAT.read(&json!({"usage": null})), None);
    }
}
