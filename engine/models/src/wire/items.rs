//! An answer as its vendor's own list of items, stored once beside its text and calls.
//!
//! The text and the calls of a turn are views of the list, so the stored list only refers to them. A text of an item is a range of
//! bytes of the turn's text: `{"from": 0, "to": 12}`. A call of an item lacks its name and its arguments, and its id where that
//! must be unique: these are the turn's. Everything else is as the vendor sent it.

use baton_types::json::Json;
use serde_json::{Map, Value, json};

use super::place::{Place, visit};
use super::{Piece, Said, parallel};

/// Returns the place of `bytes` of the turn's text.
pub(super) fn range(bytes: std::ops::Range<usize>) -> Value {
    json!({"from": bytes.start, "to": bytes.end})
}

/// Returns the text that `place` refers to; `None` if it is a text itself. Fails if there is no such range.
fn referred<'t>(place: &Value, text: &'t str) -> Option<Result<&'t str, Unfit>> {
    let bound = |key| place.get(key).and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
    let range = || text.get(bound("from")?..bound("to")?);
    place.is_object().then(|| range().ok_or(Unfit))
}

/// The items do not belong to the text and the calls.
struct Unfit;

/// Removes what the turn's call has from `item`, a call. The id of a Responses item is its own, beside that of its call.
pub(super) fn without_call(item: &mut Value) {
    let Some(item) = item.as_object_mut() else { return };
    match item.get("type").and_then(Value::as_str) {
        Some("tool_use") => ["id", "name", "input"].iter().for_each(|key| drop(item.shift_remove(*key))),
        Some("function_call") => ["call_id", "name", "arguments"].iter().for_each(|key| drop(item.shift_remove(*key))),
        _ => {}
    }
}

/// Whether the text and the calls are all of `items`: encoding them gives the same list.
fn is_plain(items: &[Value]) -> bool {
    let has_only =
        |item: &Value, keys: &[&str]| item.as_object().is_some_and(|item| item.keys().all(|key| keys.contains(&key.as_str())));
    let is_plain_call = |call: &Value| has_only(call, &["type", "function"]) && has_only(&call["function"], &[]);
    items.iter().enumerate().all(|(index, item)| match item.get("type").and_then(Value::as_str) {
        Some("text") => index == 0 && item["text"].is_object() && has_only(item, &["type", "text"]),
        Some("tool_use") => has_only(item, &["type"]),
        Some(_) => false,
        None => {
            let calls = item.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
            let has_text = item.get("content").is_none_or(Value::is_object);
            items.len() == 1
                && has_text
                && has_only(item, &["role", "content", "tool_calls"])
                && calls.into_iter().all(is_plain_call)
        }
    })
}

/// Returns `items` for a timeline, with the vendor's name; `null` if text and calls are all of them.
pub(super) fn written(vendor: &str, items: &[Value]) -> Json {
    if is_plain(items) { Json::null() } else { Json::from(json!({"vendor": vendor, "items": items})) }
}

/// Makes `items` hold the text that they refer to, because the turn's text becomes another.
pub(super) fn keep_text(items: &mut [Value], text: &str) {
    visit(items, &mut |place| {
        if let Place::Text(place) = place
            && let Some(Ok(own)) = referred(place, text)
        {
            *place = Value::from(own);
        }
    });
}

/// Makes the call at `index` of `items` hold `input`, because that of the turn's call becomes another.
pub(super) fn keep_input(items: &mut [Value], index: usize, input: &Json) {
    let mut at = 0;
    visit(items, &mut |place| {
        let Place::Call(call) = place else { return };
        // A call that holds others has kept its arguments.
        let held = parallel::held(call);
        if at == index && held == 1 {
            let kept = Value::from(input.text());
            match call.get("type").and_then(Value::as_str) {
                Some("tool_use") => call.insert("input".to_owned(), kept),
                Some("function_call") => call.insert("arguments".to_owned(), kept),
                _ => {
                    call.get_mut("function").and_then(Value::as_object_mut).and_then(|of| of.insert("arguments".to_owned(), kept))
                }
            };
        }
        at += held;
    });
}

/// Returns the numbers of calls that the calls among the kept items of `vendor` hold, in order, if any holds more than one.
pub(super) fn folded(kept: &Json, vendor: &str) -> Option<Vec<usize>> {
    if !kept.text().contains("\"holds\"") {
        return None;
    }
    let Value::Object(mut kept) = kept.value() else { return None };
    let is_own = kept.get("vendor").and_then(Value::as_str) == Some(vendor);
    let Some(Value::Array(mut items)) = kept.remove("items").filter(|_| is_own) else { return None };
    let mut numbers = Vec::new();
    visit(&mut items, &mut |place| {
        if let Place::Call(call) = place {
            numbers.push(parallel::held(call));
        }
    });
    numbers.iter().any(|number| *number > 1).then_some(numbers)
}

/// Removes secrets by `scrub`, which returns whether there was one, from everything that `items` hold. Of a signed item with a
/// secret only its view is left. Returns whether there was a secret.
pub(crate) fn scrub(items: &mut Vec<Value>, scrub: &dyn Fn(&mut Value) -> bool) -> bool {
    let (mut found, mut keeps_views) = (false, true);
    items.retain_mut(|item| {
        let had_one = scrub(item);
        found |= had_one;
        let is_spoilt = had_one && is_signed(item);
        let mut has_view = false;
        visit(std::slice::from_mut(item), &mut |_| has_view = true);
        keeps_views &= !(is_spoilt && has_view);
        !is_spoilt
    });
    if !keeps_views {
        items.clear();
    }
    found
}

/// Whether `item`, or a part of it, has a signature or a sealed text, which hold only as they came.
fn is_signed(item: &Value) -> bool {
    match item {
        Value::Array(parts) => parts.iter().any(is_signed),
        Value::Object(object) => object.iter().any(|(key, value)| {
            let is_seal = ["signature", "Signature", "encrypted", "opaque"].iter().any(|word| key.contains(word));
            let is_sealed = |kind: &str| kind.contains("encrypted") || kind.contains("redacted");
            is_seal || (key == "type" && value.as_str().is_some_and(is_sealed)) || is_signed(value)
        }),
        _ => false,
    }
}

/// Makes `items` refer to `after`, which `before` became when `replaced` removed secrets from it. Fails if a secret was in two of
/// their texts together.
pub(crate) fn refer_to(items: &mut [Value], before: &str, after: &str, replaced: &dyn Fn(&str) -> String) -> bool {
    let (mut end, mut fits) = (0, true);
    visit(items, &mut |place| {
        let Place::Text(place) = place else { return };
        let Some(own) = referred(place, before) else { return };
        let own = replaced(own.unwrap_or_default());
        let gap = after[end..].len() - after[end..].trim_start().len();
        match [end, end + gap].into_iter().find(|from| after[*from..].starts_with(&own)) {
            Some(from) => {
                end = from + own.len();
                *place = range(from..end);
            }
            None => fits = false,
        }
    });
    fits
}

impl Said<'_> {
    /// Returns the vendor's own items of this turn, whole, if `vendor` gave them. `are_objects` is set where the input of a function
    /// is an object.
    ///
    /// Items that do not fit the text and the calls are left out, as those of another vendor are.
    pub(super) fn own_items(&self, vendor: &str, are_objects: bool) -> Option<Vec<Value>> {
        let kept = self.pieces.iter().find_map(|piece| if let Piece::Items(kept) = piece { Some(kept.value()) } else { None })?;
        let Value::Object(mut kept) = kept else { return None };
        if kept.get("vendor").and_then(Value::as_str) != Some(vendor) {
            return None;
        }
        let Some(Value::Array(mut items)) = kept.remove("items") else { return None };
        let text = self.pieces.iter().find_map(|piece| if let Piece::Text(text) = piece { Some(&**text) } else { None });
        let mut calls = self.pieces.iter().filter(|piece| matches!(piece, Piece::Call { .. }));
        let mut fits = true;
        visit(&mut items, &mut |place| match place {
            Place::Text(place) => match referred(place, text.unwrap_or_default()) {
                Some(Ok(own)) => *place = Value::from(own),
                Some(Err(Unfit)) => fits = false,
                None => {}
            },
            Place::Call(call) => match calls.next() {
                Some(Piece::Call { id, tool, input }) => match parallel::held(call) {
                    1 => complete(call, id, tool, input, are_objects),
                    held => {
                        parallel::complete(call, id);
                        fits &= calls.by_ref().take(held.saturating_sub(1)).count() + 1 == held;
                    }
                },
                _ => fits = false,
            },
        });
        (fits && calls.next().is_none()).then_some(items)
    }
}

/// Adds the id, the name and the arguments to `call`, an item of its vendor.
fn complete(call: &mut Map<String, Value>, id: &str, tool: &str, input: &str, are_objects: bool) {
    let kind = call.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let object = |own: Option<Value>| {
        let own = own.as_ref().and_then(Value::as_str);
        serde_json::from_str(own.unwrap_or(input)).unwrap_or_else(|_| json!({}))
    };
    match kind.as_str() {
        "tool_use" => {
            let input = object(call.shift_remove("input"));
            call.extend([("id", Value::from(id)), ("name", Value::from(tool)), ("input", input)].map(named));
        }
        "function_call" => {
            call.extend([("call_id", Value::from(id)), ("name", Value::from(tool))].map(named));
            call.entry("arguments").or_insert_with(|| Value::from(input));
        }
        _ => {
            if !are_objects {
                call.insert("id".to_owned(), Value::from(id));
            }
            if let Some(function) = call.get_mut("function").and_then(Value::as_object_mut) {
                function.insert("name".to_owned(), Value::from(tool));
                let own = function.shift_remove("arguments");
                let arguments = if are_objects { object(own) } else { own.unwrap_or_else(|| Value::from(input)) };
                function.insert("arguments".to_owned(), arguments);
            }
        }
    }
}

fn named((key, value): (&str, Value)) -> (String, Value) {
    (key.to_owned(), value)
}
