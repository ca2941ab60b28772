//! Envelopes that a model writes itself: well-formed, of the three forms, drawn from a seed.

use serde_json::{Map, Value, json};

use crate::full;

/// Numbers from a seed.
pub(crate) struct Random(pub u64);

impl Random {
    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // Knuth's MMIX generator; its high bits are the random ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn one_of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }
}

/// Form of an envelope.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// The breadcrumb of seeds 000 and 001.
    Full,
    /// Its context alone.
    Short,
    /// The single call of seed 003.
    Invoked,
}

/// An envelope.
pub(crate) struct Own {
    pub form: Form,
    pub message: String,
    pub requests: Vec<Value>,
    is_pretty: bool,
}

impl Own {
    /// Draws an envelope of this form.
    pub(crate) fn drawn(form: Form, number: usize, random: &mut Random) -> Self {
        let count = if form == Form::Invoked { 1 } else { 1 + random.below(3) };
        let message = random.one_of(&[
            "I add.",
            "```python\nx = {}\n```",
            "Brackets } ] { [, // no comment /* neither */, and \"quotes\\\"",
            "Ünïcode 漢字 🎉",
            "{\"tool_requests\": [{\"tool\": \"openrouter\", \"input\": {}}]}",
        ]);
        let requests = (1..=count).map(|call| request(number * 10 + call, random)).collect();
        Self { form, message: message.to_owned(), requests, is_pretty: random.below(2) == 0 }
    }

    /// Returns the envelope as JSON.
    pub(crate) fn value(&self) -> Value {
        match self.form {
            Form::Full => {
                let mut value = full(&json!(self.requests));
                value["breadcrumb"]["title"] = json!(format!("Response before {}", self.requests[0]["requestId"]));
                value["breadcrumb"]["context"]["message"] = json!(self.message);
                value
            }
            Form::Short => json!({"message": self.message, "tool_requests": self.requests}),
            Form::Invoked => {
                let mut value = Map::from_iter([("action".to_owned(), json!("invoke_tool"))]);
                value.extend(self.requests[0].as_object().unwrap().clone());
                Value::Object(value)
            }
        }
    }

    /// Returns `value` as this model writes JSON.
    pub(crate) fn write(&self, value: &Value) -> String {
        if self.is_pretty { serde_json::to_string_pretty(value).unwrap() } else { value.to_string() }
    }

    /// Returns the envelope as its model writes it.
    pub(crate) fn text(&self) -> String {
        self.write(&self.value())
    }
}

/// Draws a request of a call. Each number has an input and an id of its own.
fn request(number: usize, random: &mut Random) -> Value {
    let expression = format!("{number} + {}", random.below(1000));
    let (tool, input) = match random.below(3) {
        0 => ("openrouter", json!({"messages": [{"role": "user", "content": format!("What is {expression}? \\ \"{{}}\"")}]})),
        _ => ("calculator", json!({"expression": expression})),
    };
    let mut request = json!({"tool": tool, "input": input, "requestId": format!("{tool}-{number}")});
    if random.below(2) == 0 {
        request["return_to_llm"] = json!(random.below(2) == 0);
    }
    request
}
