//! An answer as its vendor's items, with vendor-neutral views of them: text, calls and finish reason.

use baton_types::json::Json;
use baton_types::model::{Answered, FinishReason, ModelTurn, Usage};
use baton_types::money::Money;
use serde_json::{Map, Value};

use super::arguments::call_of;
use super::{items, parallel};

/// Answer of a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The text, possibly empty.
    pub text: String,
    /// The calls, in order.
    pub calls: Vec<AnsweredCall>,
    /// The vendor's own items, in order, which refer to the text and the calls. The vendor gets them back.
    pub items: Vec<Value>,
    /// Text of the model instead of an answer, if it declined.
    pub refusal: Option<String>,
    /// The finish reason as the provider names it.
    pub finish: Option<String>,
    /// Usage, if the provider reported it.
    pub usage: Option<Usage>,
    /// Cost in US dollars, if the provider reported it.
    pub cost_usd: Option<f64>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The model that answered, as the provider calls it.
    pub model: Option<String>,
}

/// A call in a provider's form; its arguments are text that a model wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnsweredCall {
    /// The provider's id of the call.
    pub id: Option<String>,
    /// The name the model used.
    pub tool: String,
    /// The arguments, as they came.
    pub arguments: String,
}

/// Changes of a turn's text and inputs into those of the agent's own schemas.
#[derive(Debug, Default)]
pub struct Restored {
    /// The text, if it changes.
    pub text: Option<String>,
    /// The inputs that change, with the places of their calls.
    pub inputs: Vec<(usize, Json)>,
}

impl Answer {
    /// Adds `text` to the text, after an empty line if it `begins_anew`. Returns its place for an item.
    pub(super) fn say(&mut self, text: &str, begins_anew: bool) -> Value {
        let touches =
            !self.text.is_empty() && !self.text.ends_with(char::is_whitespace) && !text.starts_with(char::is_whitespace);
        if begins_anew && touches && !text.is_empty() {
            self.text.push_str("\n\n");
        }
        let from = self.text.len();
        self.text.push_str(text);
        items::range(from..self.text.len())
    }

    /// Returns the reason why the model stopped. Calls are recognized by their presence: servers send `stop` with
    /// calls, too.
    pub fn finish_reason(&self) -> FinishReason {
        let word = self.finish.as_deref().unwrap_or_default();
        match word {
            _ if is_cut(word) => FinishReason::Length,
            "refusal" => FinishReason::Refusal,
            _ if word.starts_with("content_filter") => FinishReason::ContentFilter,
            _ if !self.calls.is_empty() => FinishReason::ToolCalls,
            _ if self.refusal.is_some() => FinishReason::Refusal,
            _ => FinishReason::Stop,
        }
    }

    /// Returns this answer as a turn. `provider` is the one that gave it, `vendor` the one that gets its items back.
    pub fn into_turn(self, provider: &str, vendor: &str) -> ModelTurn {
        self.into_restored_turn(provider, vendor, &|_| Restored::default())
    }

    /// Returns this answer as a turn whose text and inputs are `restored`. Its items stay as the vendor sent them.
    ///
    /// A turn that is cut, withheld or refused has no items: it goes back as text.
    pub fn into_restored_turn(self, provider: &str, vendor: &str, restored: &dyn Fn(&ModelTurn) -> Restored) -> ModelTurn {
        let finish = self.finish_reason();
        let answered = Answered {
            provider: provider.to_owned(),
            model: self.model,
            id: self.id,
            finish: self.finish,
            cost: self.cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0).map(Money::from_usd),
        };
        let mut items = self.items;
        let calls = parallel::unfold(&mut items, self.calls);
        if !matches!(finish, FinishReason::Stop | FinishReason::ToolCalls) {
            items.clear();
        }
        let mut turn = ModelTurn {
            text: if self.text.is_empty() { self.refusal.unwrap_or_default() } else { self.text },
            calls: calls.into_iter().map(call_of).collect(),
            finish,
            usage: self.usage,
            items: Json::null(),
            answered: Some(Box::new(answered)),
        };
        let Restored { text, inputs } = restored(&turn);
        for (index, input) in inputs {
            items::keep_input(&mut items, index, &turn.calls[index].input);
            turn.calls[index].input = input;
        }
        if let Some(text) = text {
            items::keep_text(&mut items, &turn.text);
            turn.text = text;
        }
        turn.items = items::written(vendor, &items);
        turn
    }
}

/// Whether the finish reason `word` means that the answer is incomplete.
pub(super) fn is_cut(word: &str) -> bool {
    matches!(word, "length" | "max_tokens" | "max_output_tokens" | "model_context_window_exceeded" | "pause_turn")
}

/// Calls that come in pieces: each piece names its call by an index, by an id, by both or by neither.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    calls: Vec<(Option<u64>, AnsweredCall, Map<String, Value>)>,
}

impl Pieces {
    /// Adds a piece to its call. Returns the other fields of that call. Calls stay apart even if a server gives all of them the same
    /// index, or none.
    pub(super) fn add(
        &mut self,
        index: Option<u64>,
        id: Option<&str>,
        tool: Option<&str>,
        arguments: &str,
    ) -> &mut Map<String, Value> {
        let known = match (index, id) {
            (Some(index), _) => self.calls.iter().rposition(|(known, ..)| *known == Some(index)),
            (None, Some(id)) => self.calls.iter().rposition(|(_, call, _)| call.id.as_deref() == Some(id)),
            (None, None) => None,
        };
        // A piece without index and id continues the last call; one with a name of its own begins another.
        let known = known.or_else(|| self.calls.len().checked_sub(1).filter(|_| index.is_none() && id.is_none()));
        let known = known.filter(|at| !self.calls[*at].1.ends_before(id, tool, arguments));
        let at = known.unwrap_or_else(|| {
            self.calls.push((index, AnsweredCall::default(), Map::new()));
            self.calls.len() - 1
        });
        let (_, call, beside) = &mut self.calls[at];
        if call.id.is_none() {
            call.id = id.map(str::to_owned);
        }
        if call.tool.is_empty() {
            tool.unwrap_or_default().clone_into(&mut call.tool);
        }
        call.arguments.push_str(arguments);
        beside
    }

    /// Returns each call with its other fields.
    pub(super) fn finish(self) -> impl Iterator<Item = (AnsweredCall, Map<String, Value>)> {
        self.calls.into_iter().map(|(_, call, beside)| (call, beside))
    }
}

impl AnsweredCall {
    /// Whether a piece with these names belongs to another call than this one.
    fn ends_before(&self, id: Option<&str>, tool: Option<&str>, arguments: &str) -> bool {
        match (id, &self.id) {
            (Some(id), Some(own)) => id != own,
            _ => match tool {
                Some(tool) if self.tool.is_empty() || self.tool == tool => {
                    !arguments.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
                }
                Some(_) => true,
                None => false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Piece<'a> = (Option<u64>, Option<&'a str>, Option<&'a str>, &'a str);

    fn joined(pieces: &[Piece<'_>]) -> Vec<String> {
        let mut joined = Pieces::default();
        for (index, id, tool, arguments) in pieces {
            joined.add(*index, *id, *tool, arguments);
        }
        let shown = |call: AnsweredCall| format!("{} {}{}", call.id.unwrap_or_default(), call.tool, call.arguments);
        joined.finish().map(|(call, _)| shown(call)).collect()
    }

    #[test]
    fn calls_are_kept_apart_whatever_their_indexes_and_ids() {
        let (a, b) = (Some("a"), Some("b"));
        // As OpenAI sends them, interleaved, and with a gap.
        let pieces =
            [(Some(0), Some("1"), a, ""), (Some(7), Some("2"), b, "{"), (Some(0), None, None, "{}"), (Some(7), None, None, "}")];
        assert_eq!(joined(&pieces), ["1 a{}", "2 b{}"]);
        // All of the same index.
        let pieces = [
            (Some(0), Some("1"), a, "{\"x\":"),
            (Some(0), None, None, "1}"),
            (Some(0), Some("2"), a, "{"),
            (Some(0), None, None, "}"),
        ];
        assert_eq!(joined(&pieces), ["1 a{\"x\":1}", "2 a{}"]);
        assert_eq!(joined(&[(Some(0), None, a, "{}"), (Some(0), None, b, "{}")]), [" a{}", " b{}"]);
        assert_eq!(joined(&[(Some(0), None, a, "{}"), (Some(0), None, a, "{}")]), [" a{}", " a{}"]);
        // Without an index: by id, or one after the other.
        let pieces =
            [(None, Some("1"), a, "{"), (None, Some("2"), b, "{"), (None, Some("1"), None, "}"), (None, Some("2"), None, "}")];
        assert_eq!(joined(&pieces), ["1 a{}", "2 b{}"]);
        assert_eq!(joined(&[(None, None, a, "{"), (None, None, None, "}"), (None, None, b, "{}")]), [" a{}", " b{}"]);
        // The same id twice in a turn, distinguished by index.
        assert_eq!(joined(&[(Some(0), Some("1"), a, "{}"), (Some(1), Some("1"), a, "{}")]), ["1 a{}", "1 a{}"]);
        // The name repeated in every piece.
        let pieces = [(Some(0), Some("1"), a, "{\"x\""), (Some(0), Some("1"), a, ":1}"), (Some(0), Some("1"), a, "")];
        assert_eq!(joined(&pieces), ["1 a{\"x\":1}"]);
    }
}
