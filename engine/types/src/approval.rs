//! Classes of calls that a person approves at once.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::Json;

/// A condition on the input of a call. A class has one or more, and a call of the class meets all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArgumentMatch {
    /// JSON pointer to a value of the input, such as `/path`.
    pub pointer: String,
    /// The value must be this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Json>,
    /// The value must be a text that begins with this. A text with `..` between slashes does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

impl ArgumentMatch {
    /// Checks that it is a condition.
    ///
    /// # Errors
    /// Why it is none.
    pub fn check(&self) -> Result<(), String> {
        if !self.pointer.starts_with('/') {
            return Err(format!("{:?} is not a JSON pointer to a value of the input, such as \"/path\"", self.pointer));
        }
        if self.equals.is_some() == self.prefix.is_some() {
            return Err(format!("{} needs either \"equals\" or \"prefix\"", self.pointer));
        }
        Ok(())
    }

    /// Whether `input` meets the condition.
    pub fn holds(&self, input: &Value) -> bool {
        let Some(value) = input.pointer(&self.pointer) else { return false };
        match (&self.equals, &self.prefix) {
            (Some(wanted), None) => *value == wanted.value(),
            (None, Some(prefix)) => {
                let climbs = |text: &str| text.split(['/', '\\']).any(|part| part == "..");
                value.as_str().is_some_and(|text| text.starts_with(prefix.as_str()) && !climbs(text))
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for ArgumentMatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.equals, &self.prefix) {
            (Some(value), _) => write!(f, "{} is {}", self.pointer, value.text()),
            (None, Some(prefix)) => write!(f, "{} begins with {prefix:?}", self.pointer),
            (None, None) => write!(f, "{} is anything", self.pointer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_holds_for_an_exact_value_or_a_prefix() {
        let condition = |value: Value| serde_json::from_value::<ArgumentMatch>(value).unwrap();
        let prefix = condition(json!({"pointer": "/path", "prefix": "drafts/"}));
        for (path, holds) in [(json!("drafts/a.md"), true), (json!("final/a.md"), false), (json!(7), false)] {
            assert_eq!(prefix.holds(&json!({"path": path})), holds);
        }
        assert!(!prefix.holds(&json!({"path": "drafts/../secret"})) && !prefix.holds(&json!({})));
        let exact = condition(json!({"pointer": "/to/0", "equals": {"n": 1}}));
        assert!(exact.holds(&json!({"to": [{"n": 1}]})) && !exact.holds(&json!({"to": [{"n": 2}]})));
        assert!(exact.check().is_ok() && prefix.check().is_ok());
        for bad in [
            json!({"pointer": "path", "prefix": ""}),
            json!({"pointer": "/a"}),
            json!({"pointer": "/a", "equals": 1, "prefix": "b"}),
        ] {
            assert!(condition(bad).check().is_err());
        }
        assert_eq!(prefix.to_string(), "/path begins with \"drafts/\"");
    }
}
