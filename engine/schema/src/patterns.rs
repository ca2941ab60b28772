//! Patterns of the files that people write, each with a function that needs no regular expression.

/// Pattern of names of environment variables.
pub const ENV_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]{0,127}$";

/// Pattern of days.
pub const DAY_PATTERN: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$";

/// Pattern of names that templates use.
pub const NAME_PATTERN: &str = "^[a-z][a-z0-9_]*$";

/// Whether `name` matches [`NAME_PATTERN`].
pub fn is_template_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|each| each.is_ascii_lowercase() || each.is_ascii_digit() || each == b'_')
}

/// Whether `name` matches [`ENV_PATTERN`].
pub fn is_environment_name(name: &str) -> bool {
    name.len() <= 128
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|each| each.is_ascii_alphanumeric() || each == b'_')
}

/// Whether `text` matches [`DAY_PATTERN`].
pub fn is_day(text: &str) -> bool {
    let fits = |(place, byte): (usize, u8)| if place == 4 || place == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(fits)
}

/// Address of a page.
pub const PAGE_PATTERN: &str = "^https://[^ ]+$";

/// Whether `text` matches [`PAGE_PATTERN`].
pub fn is_page(text: &str) -> bool {
    text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.contains(' '))
}
