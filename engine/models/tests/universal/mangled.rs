//! Mangled envelopes: what models do to JSON, each kind labelled with its outcome.

use std::collections::HashSet;

use baton_types::model::FinishReason;
use serde_json::{Map, Value, json};

use crate::kinds::KINDS;
use crate::own::{Form, Own, Random};
use crate::{request, turn};

/// Envelopes of each form that each kind mangles.
const OF_EACH_FORM: usize = 6;

/// Greatest number of bytes of a reason that a model receives.
const REASON_BYTES: usize = 300;

/// Outcome of a mangled envelope.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Label {
    /// Exactly the calls of the envelope are made.
    Run,
    /// No call is made, and the model receives a reason.
    Teach,
    /// The envelope's calls name tools that do not exist: the run refuses them.
    Refused,
    /// The answer has no envelope: it is text.
    Text,
}

use Label::{Refused, Run, Teach, Text};

/// A change of an envelope.
pub(crate) enum Mangle {
    /// Of its text.
    All(fn(&str) -> String),
    /// A text at a random place between two tokens.
    Insert(&'static str),
    /// A random token out of these is removed.
    Remove(&'static [char]),
    /// Of its JSON.
    Value(fn(Value) -> Value),
    /// Of each request.
    Request(fn(&mut Map<String, Value>)),
    /// Of the object with the message and the list of requests.
    Context(fn(&mut Map<String, Value>)),
    /// Of the breadcrumb.
    Breadcrumb(fn(&mut Map<String, Value>)),
}

use Mangle::{All, Breadcrumb, Context, Insert, Remove};

/// Returns `value` with the keys of its objects in the opposite order. Inputs stay: they are the tools'.
pub(crate) fn reversed(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let reverse = |(key, value): (String, Value)| if key == "input" { (key, value) } else { (key, reversed(value)) };
            Value::Object(object.into_iter().rev().map(reverse).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(reversed).collect()),
        other => other,
    }
}

/// Returns the characters of JSON that are outside of strings, each with its place.
fn code(text: &str) -> Vec<(usize, char)> {
    let (mut is_string, mut is_escaped) = (false, false);
    let mut code = Vec::new();
    for (place, each) in text.char_indices() {
        match each {
            '"' if !is_escaped => is_string = !is_string,
            _ if !is_string => code.push((place, each)),
            _ => {}
        }
        is_escaped = each == '\\' && !is_escaped;
    }
    code
}

/// Returns `text` with an insertion before each closing bracket.
pub(crate) fn at_brackets(text: &str, insertion: impl Fn(char) -> &'static str) -> String {
    let mut changed = text.to_owned();
    for (place, each) in code(text).into_iter().rev().filter(|(_, each)| matches!(each, '}' | ']')) {
        changed.insert_str(place, insertion(each));
    }
    changed
}

impl Mangle {
    /// Returns the text of an envelope, mangled; `None` if its form has not what this changes.
    fn apply(&self, own: &Own, random: &mut Random) -> Option<String> {
        let mut value = own.value();
        let context = match own.form {
            Form::Full => Some("/breadcrumb/context"),
            Form::Short => Some(""),
            Form::Invoked => None,
        };
        let object = |value: &'_ mut Value, change: fn(&mut Map<String, Value>)| change(value.as_object_mut().unwrap());
        match self {
            All(change) => return Some(change(&own.text())),
            Insert(insertion) => {
                let mut text = own.text();
                let places: Vec<usize> = code(&text)
                    .into_iter()
                    .filter_map(|(place, each)| match each {
                        '{' | '[' | ',' | ':' => Some(place + 1),
                        '}' | ']' => Some(place),
                        _ => None,
                    })
                    .collect();
                text.insert_str(places[random.below(places.len())], insertion);
                return Some(text);
            }
            Remove(tokens) => {
                let mut text = own.text();
                let places: Vec<usize> =
                    code(&text).into_iter().filter(|(_, each)| tokens.contains(each)).map(|(place, _)| place).collect();
                text.remove(places[random.below(places.len())]);
                return Some(text);
            }
            Mangle::Value(change) => value = change(value),
            Mangle::Request(change) => match context {
                Some(context) => {
                    let list = value.pointer_mut(&format!("{context}/tool_requests")).unwrap();
                    list.as_array_mut().unwrap().iter_mut().for_each(|request| object(request, *change));
                }
                None => object(&mut value, *change),
            },
            Context(change) => object(value.pointer_mut(context?).unwrap(), *change),
            Breadcrumb(change) => object(value.get_mut("breadcrumb")?, *change),
        }
        Some(own.write(&value))
    }
}

/// Returns the outcome of a model's text, whose envelope is `own`; an error if it is none of the four.
fn outcome(own: &Own, text: &str) -> Result<Label, String> {
    let (turn, expected) = (turn(text), turn(&own.text()));
    let reasons: Vec<&str> = turn.calls.iter().filter_map(|call| call.malformed.as_deref()).collect();
    if let Some(long) = reasons.iter().find(|reason| reason.len() > REASON_BYTES) {
        return Err(format!("a reason of {} bytes", long.len()));
    }
    if (turn.finish == FinishReason::ToolCalls) == turn.calls.is_empty() {
        return Err(format!("{:?} with {} calls", turn.finish, turn.calls.len()));
    }
    let tools = request(Vec::new()).tools;
    let is_offered = |tool: &str| tools.iter().any(|offered| offered.id.as_str() == tool);
    // An envelope without a message has the text around it as its message.
    let is_around = || expected.text.is_empty() && turn.text.lines().all(|line| text.contains(line));
    match (turn.calls.len(), reasons.len()) {
        (0, 0) if turn.text == text => Ok(Text),
        (calls, malformed) if calls == malformed && calls > 0 => Ok(Teach),
        (_, 0) if turn.calls == expected.calls && (turn.text == expected.text || is_around()) => Ok(Run),
        (_, 0) if !turn.calls.is_empty() && !turn.calls.iter().any(|call| is_offered(&call.tool)) => Ok(Refused),
        _ => Err(format!("{turn:?}")),
    }
}

/// Returns the envelopes for the kind number `kind`.
fn envelopes(kind: usize) -> impl Iterator<Item = (Own, Random)> {
    let forms = [Form::Full, Form::Short, Form::Invoked].into_iter();
    forms.flat_map(move |form| {
        (0..OF_EACH_FORM).map(move |number| {
            let mut random = Random((kind * OF_EACH_FORM + number) as u64 * 3 + form as u64);
            (Own::drawn(form, number, &mut random), random)
        })
    })
}

#[test]
fn an_envelope_has_the_calls_that_its_model_wrote() {
    for (own, _) in (0..50).flat_map(envelopes) {
        let turn = turn(&own.text());
        let made: Vec<Value> = turn
            .calls
            .iter()
            .map(|call| {
                assert_eq!(call.malformed, None);
                let mut made = json!({"tool": call.tool, "input": call.input, "requestId": call.provider_id});
                if let Some(wish) = call.return_to_llm {
                    made["return_to_llm"] = json!(wish);
                }
                made
            })
            .collect();
        assert_eq!(made, own.requests);
        assert_eq!(turn.text, if own.form == Form::Invoked { "" } else { &own.message });
    }
}

#[test]
fn each_mangled_envelope_runs_or_teaches_as_its_kind_is_labelled() {
    let mut texts = HashSet::new();
    let mut counts = [0; 4];
    let mut wrong = Vec::new();
    for (kind, (name, label, mangle)) in KINDS.iter().enumerate() {
        let mut of_kind = 0;
        for (own, mut random) in envelopes(kind) {
            let Some(text) = mangle.apply(&own, &mut random) else { continue };
            if outcome(&own, &text) != Ok(*label) {
                wrong.push(format!(
                    "{name} is not {label:?} but {:?}: {}",
                    outcome(&own, &text),
                    text.chars().take(400).collect::<String>()
                ));
            }
            // Two draws may be the same envelope, and a change may change nothing.
            of_kind += usize::from(texts.insert(text));
        }
        let least = if *label == Text { 1 } else { OF_EACH_FORM / 2 };
        assert!(of_kind >= least, "{name}: only {of_kind} distinct texts");
        counts[*label as usize] += of_kind;
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(counts, [996, 2042, 108, 57], "texts that run, teach, are refused, and are text");
}

/// A complete answer that ends too early: an object without its end is no text.
#[test]
fn an_envelope_that_is_cut_anywhere_teaches() {
    let mut cuts = 0;
    for (own, _) in envelopes(0).step_by(OF_EACH_FORM / 2) {
        let text = own.text();
        for fence in ["", "```json\n"] {
            for end in (1..text.len()).filter(|end| text.is_char_boundary(*end)) {
                let cut = format!("{fence}{}", &text[..end]);
                assert_eq!(outcome(&own, &cut), Ok(Teach), "{cut}");
                cuts += 1;
            }
        }
    }
    assert!(cuts > 3_000, "{cuts}");
}
