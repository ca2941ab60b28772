//! JSON pointers (RFC 6901), built token by token.

/// Appends a reference token to a JSON pointer.
pub fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    for character in token.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            plain => pointer.push(plain),
        }
    }
}

/// Returns the pointer of a place below another.
pub(crate) fn below(pointer: &str, token: &str) -> String {
    let mut inner = pointer.to_owned();
    push_token(&mut inner, token);
    inner
}
