//! The few styles in use. They are named after their meaning, so that a screen without colour loses nothing.

use crate::text::{Shown, Text};

/// Something good.
pub(crate) fn good(value: impl Shown) -> Text {
    Text::styled("32", value)
}

/// Something bad.
pub(crate) fn bad(value: impl Shown) -> Text {
    Text::styled("1;31", value)
}

/// Something that needs a person, or waits.
pub(crate) fn waiting(value: impl Shown) -> Text {
    Text::styled("33", value)
}

/// Something at work.
pub(crate) fn busy(value: impl Shown) -> Text {
    Text::styled("36", value)
}

/// The name of a thing.
pub(crate) fn name(value: impl Shown) -> Text {
    Text::styled("1", value)
}

/// Of less weight than the rest.
pub(crate) fn faint(value: impl Shown) -> Text {
    Text::styled("2", value)
}
