//! The styles of the output. They are named after their meaning, and output without colour has the same information.

use crate::text::{Shown, Text};

/// Styles a success.
pub(crate) fn good(value: impl Shown) -> Text {
    Text::styled("32", value)
}

/// Styles a failure.
pub(crate) fn bad(value: impl Shown) -> Text {
    Text::styled("1;31", value)
}

/// Styles a thing that waits or needs a person.
pub(crate) fn waiting(value: impl Shown) -> Text {
    Text::styled("33", value)
}

/// Styles a thing in progress.
pub(crate) fn busy(value: impl Shown) -> Text {
    Text::styled("36", value)
}

/// Styles a name.
pub(crate) fn name(value: impl Shown) -> Text {
    Text::styled("1", value)
}

/// Styles a text that is less important than the rest.
pub(crate) fn faint(value: impl Shown) -> Text {
    Text::styled("2", value)
}
