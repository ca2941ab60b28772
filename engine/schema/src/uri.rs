//! Identifiers of schemas: references relative to a base (RFC 3986, section 5).

/// Base of a schema without an `$id`.
pub(crate) const DEFAULT_BASE: &str = "schema:///";

/// The parts of an address without its fragment.
struct Parts<'u> {
    scheme: Option<&'u str>,
    authority: Option<&'u str>,
    path: &'u str,
    query: Option<&'u str>,
}

impl<'u> Parts<'u> {
    fn of(text: &'u str) -> Self {
        let (scheme, rest) = match text.find([':', '/', '?']) {
            Some(end) if end > 0 && text.as_bytes()[end] == b':' => (Some(&text[..end]), &text[end + 1..]),
            _ => (None, text),
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                (Some(&rest[..end]), &rest[end..])
            }
            None => (None, rest),
        };
        Self { scheme, authority, path, query }
    }
}

/// Splits a reference into its address and its fragment.
pub(crate) fn split(reference: &str) -> (&str, Option<&str>) {
    reference.split_once('#').map_or((reference, None), |(address, fragment)| (address, Some(fragment)))
}

/// Returns `reference`, which has no fragment, as an address of its own.
pub(crate) fn resolve(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    let (own, base) = (Parts::of(reference), Parts::of(base));
    if own.scheme.is_some() {
        return joined(&own, &without_dots(own.path));
    }
    let scheme = base.scheme;
    if own.authority.is_some() {
        return joined(&Parts { scheme, ..own }, &without_dots(own.path));
    }
    let path = if own.path.is_empty() {
        base.path.to_owned()
    } else if own.path.starts_with('/') {
        without_dots(own.path)
    } else {
        let folder = base.path.rfind('/').map_or("", |end| &base.path[..=end]);
        let folder = if folder.is_empty() && base.authority.is_some() { "/" } else { folder };
        without_dots(&format!("{folder}{}", own.path))
    };
    let query = if own.path.is_empty() && own.query.is_none() { base.query } else { own.query };
    joined(&Parts { scheme, authority: base.authority, path: "", query }, &path)
}

fn joined(parts: &Parts<'_>, path: &str) -> String {
    let scheme = parts.scheme.map_or(String::new(), |scheme| format!("{}:", scheme.to_ascii_lowercase()));
    let authority = parts.authority.map_or(String::new(), |authority| format!("//{authority}"));
    let query = parts.query.map_or(String::new(), |query| format!("?{query}"));
    format!("{scheme}{authority}{path}{query}")
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').collect();
    for (index, segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        match *segment {
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                if kept.len() > 1 || kept.first().is_some_and(|first| !first.is_empty()) {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    kept.join("/")
}

/// Returns the text that a fragment encodes.
pub(crate) fn decoded(fragment: &str) -> String {
    let bytes = fragment.as_bytes();
    let (mut plain, mut index) = (Vec::with_capacity(bytes.len()), 0);
    while index < bytes.len() {
        let code = fragment.get(index + 1..index + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let code = code.filter(|_| bytes[index] == b'%');
        plain.push(code.unwrap_or(bytes[index]));
        index += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_resolve_as_in_the_examples_of_the_rfc() {
        let base = "http://a/b/c/d;p?q";
        for (reference, expected) in [
            ("g:h", "g:h"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            // A scheme is not empty.
            (":g", "http://a/b/c/:g"),
        ] {
            assert_eq!(resolve(base, reference), expected, "{reference}");
        }
        assert_eq!(resolve("urn:uuid:1-2", "urn:uuid:3"), "urn:uuid:3");
        assert_eq!(resolve(DEFAULT_BASE, "child"), "schema:///child");
        assert_eq!(decoded("/a%25b/%22c"), "/a%b/\"c");
        assert_eq!(decoded("%é%4"), "%é%4");
    }
}
