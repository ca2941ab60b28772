//! `echo`: returns a message.

use baton_macros::tool;
use baton_tool::{ToolError, ToolErrorKind};
use serde::Serialize;

/// Output of `echo`.
#[derive(Debug, Serialize)]
struct Echoed {
    echo: String,
}

/// Returns `message`.
#[tool]
fn echo(message: String) -> Result<Echoed, ToolError> {
    if message.is_empty() {
        return Err(ToolError::new("Missing required field: message").of_kind(ToolErrorKind::InvalidInput));
    }
    Ok(Echoed { echo: message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was() {
        for message in ["hello", "0", " ", "</document>\n{{ 7*7 }}\u{202E}"] {
            assert_eq!(echo(message.to_owned()).unwrap().echo, message);
        }
    }

    #[test]
    fn an_empty_message_is_missing() {
        assert_eq!(echo(String::new()).unwrap_err().message, "Missing required field: message");
    }
}
