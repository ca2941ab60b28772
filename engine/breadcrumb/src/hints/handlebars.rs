//! The part of Handlebars that templates of records use: values, `each`, `if`, `unless`, `with`, `else`.
//!
//! Translating it into Jinja was the alternative. The two differ in scopes (`this`, `../name`, `@key`) and in missing values,
//! which are empty here, so an interpreter is shorter than a translation that is right. There are no helpers and no escaping of
//! HTML: the text is for a model.

use serde_json::Value;

use super::text_of;

/// The most blocks inside each other.
const MAX_NESTING: usize = 16;
/// The most parts that one rendering may walk through.
const MAX_STEPS: usize = 500_000;

/// A part of a template.
#[derive(Debug)]
enum Part<'t> {
    Text(&'t str),
    Value(&'t str),
    Block { kind: Kind, path: &'t str, inside: Vec<Part<'t>>, otherwise: Vec<Part<'t>> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Each,
    If,
    Unless,
    With,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "each" => Self::Each,
            "if" => Self::If,
            "unless" => Self::Unless,
            "with" => Self::With,
            _ => return None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::If => "if",
            Self::Unless => "unless",
            Self::With => "with",
        }
    }
}

/// Renders `template` with the fields of `context`; `context` itself has that name too. At most `most` bytes.
pub(super) fn render(template: &str, context: &Value, most: usize) -> Result<String, String> {
    let tokens = tokens(template)?;
    let mut reader = Reader { tokens: &tokens, at: 0 };
    let (parts, end) = reader.parts(0)?;
    if let Some(end) = end {
        return Err(format!("{{{{{end}}}}} has no block that it ends"));
    }
    let mut rendering = Rendering { root: context, text: String::new(), most, steps: 0 };
    rendering.write(&parts, &[Scope { value: context, key: None, index: 0, is_last: true }])?;
    Ok(rendering.text)
}

/// A piece of the source: text, or what is between two pairs of braces.
#[derive(Clone, Copy, Debug)]
enum Token<'t> {
    Text(&'t str),
    Tag(&'t str),
}

/// Splits a template into texts and tags. A line that holds one block tag alone vanishes with its line break.
fn tokens(template: &str) -> Result<Vec<Token<'_>>, String> {
    let mut tokens = Vec::new();
    let mut rest = template;
    while let Some((mut before, after)) = rest.split_once("{{") {
        let (inside, mut behind) = match after.strip_prefix('{') {
            Some(after) => after.split_once("}}}").ok_or("a {{{ has no }}}")?,
            None => after.split_once("}}").ok_or("a {{ has no }}")?,
        };
        let tag = inside.trim();
        let is_block = tag.starts_with(['#', '/', '!']) || tag == "else";
        let begins_line = tokens.is_empty() && before.trim_matches([' ', '\t']).is_empty()
            || before.trim_end_matches([' ', '\t']).ends_with('\n')
            || before.trim_matches([' ', '\t']).is_empty() && matches!(tokens.last(), Some(Token::Text("")));
        let after_spaces = behind.trim_start_matches([' ', '\t']);
        let ends_line = after_spaces.is_empty() || after_spaces.starts_with(['\n', '\r']);
        let is_alone = is_block && begins_line && ends_line;
        if is_alone {
            before = before.trim_end_matches([' ', '\t']);
            behind = after_spaces.strip_prefix('\r').unwrap_or(after_spaces);
            behind = behind.strip_prefix('\n').unwrap_or(behind);
        }
        tokens.push(Token::Text(before));
        if !tag.starts_with('!') {
            tokens.push(Token::Tag(tag));
        }
        if is_alone {
            // The next character begins a line.
            tokens.push(Token::Text(""));
        }
        rest = behind;
    }
    tokens.push(Token::Text(rest));
    Ok(tokens)
}

struct Reader<'r, 't> {
    tokens: &'r [Token<'t>],
    at: usize,
}

impl<'t> Reader<'_, 't> {
    /// Reads parts until a tag that ends a block or begins its other branch, and returns that tag.
    fn parts(&mut self, nesting: usize) -> Result<(Vec<Part<'t>>, Option<&'t str>), String> {
        if nesting > MAX_NESTING {
            return Err(format!("blocks are nested deeper than {MAX_NESTING}"));
        }
        let mut parts = Vec::new();
        while let Some(token) = self.tokens.get(self.at) {
            self.at += 1;
            match token {
                Token::Text(text) => parts.push(Part::Text(text)),
                Token::Tag(tag) if tag.starts_with('/') || *tag == "else" => return Ok((parts, Some(tag))),
                Token::Tag(tag) => match tag.strip_prefix('#') {
                    None => parts.push(Part::Value(path(tag)?)),
                    Some(block) => parts.push(self.block(block, nesting)?),
                },
            }
        }
        Ok((parts, None))
    }

    fn block(&mut self, block: &'t str, nesting: usize) -> Result<Part<'t>, String> {
        let (name, rest) = block.split_once(char::is_whitespace).unwrap_or((block, ""));
        let kind =
            Kind::named(name).ok_or_else(|| format!("the block {name:?} is not known; expected each, if, unless or with"))?;
        let path = path(rest.trim())?;
        let (inside, mut end) = self.parts(nesting + 1)?;
        let mut otherwise = Vec::new();
        if end == Some("else") {
            (otherwise, end) = self.parts(nesting + 1)?;
        }
        match end.and_then(|end| end.strip_prefix('/')) {
            Some(end) if end.trim() == kind.name() => Ok(Part::Block { kind, path, inside, otherwise }),
            _ => Err(format!("the block {name} has no {{{{/{name}}}}}")),
        }
    }
}

/// Checks a path: names with dots, without helpers.
fn path(path: &str) -> Result<&str, String> {
    if path.is_empty() || path.contains(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '=' | '>' | '"')) {
        return Err(format!("{path:?} is not a path; expected a.b, this, @key or ../a"));
    }
    Ok(path)
}

/// The value that names are looked up in, and its place in the list around it.
#[derive(Clone, Copy)]
struct Scope<'v> {
    value: &'v Value,
    key: Option<&'v str>,
    index: usize,
    is_last: bool,
}

struct Rendering<'v> {
    root: &'v Value,
    text: String,
    most: usize,
    steps: usize,
}

/// A value, found or made.
enum Found<'v> {
    Value(&'v Value),
    Number(usize),
    Truth(bool),
    Text(&'v str),
    Nothing,
}

impl<'v> Rendering<'v> {
    fn write(&mut self, parts: &[Part<'_>], scopes: &[Scope<'v>]) -> Result<(), String> {
        for part in parts {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(format!("the template takes more than {MAX_STEPS} steps"));
            }
            match part {
                Part::Text(text) => self.push(text)?,
                Part::Value(path) => {
                    let text = match self.find(path, scopes) {
                        Found::Value(value) => text_of(Some(value)),
                        Found::Number(number) => number.to_string(),
                        Found::Truth(truth) => truth.to_string(),
                        Found::Text(text) => text.to_owned(),
                        Found::Nothing => String::new(),
                    };
                    self.push(&text)?;
                }
                Part::Block { kind, path, inside, otherwise } => {
                    let found = self.find(path, scopes);
                    match (kind, found) {
                        (Kind::Each, Found::Value(value)) if has_elements(value) => self.each(value, inside, scopes)?,
                        (Kind::If, found) if is_true(&found) => self.write(inside, scopes)?,
                        (Kind::Unless, found) if !is_true(&found) => self.write(inside, scopes)?,
                        (Kind::With, Found::Value(value)) if is_true(&Found::Value(value)) => {
                            self.within(Scope { value, key: None, index: 0, is_last: true }, inside, scopes)?;
                        }
                        _ => self.write(otherwise, scopes)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn each(&mut self, value: &'v Value, inside: &[Part<'_>], scopes: &[Scope<'v>]) -> Result<(), String> {
        match value {
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    self.within(Scope { value, key: None, index, is_last: index + 1 == values.len() }, inside, scopes)?;
                }
            }
            Value::Object(fields) => {
                for (index, (key, value)) in fields.iter().enumerate() {
                    let is_last = index + 1 == fields.len();
                    self.within(Scope { value, key: Some(key), index, is_last }, inside, scopes)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn within(&mut self, scope: Scope<'v>, inside: &[Part<'_>], scopes: &[Scope<'v>]) -> Result<(), String> {
        let scopes: Vec<Scope<'v>> = scopes.iter().copied().chain([scope]).collect();
        self.write(inside, &scopes)
    }

    fn push(&mut self, text: &str) -> Result<(), String> {
        if self.text.len() + text.len() > self.most {
            return Err(format!("the text has more than {} bytes", self.most));
        }
        self.text.push_str(text);
        Ok(())
    }

    /// Looks up a path in the innermost scope. Only `../` leads outwards.
    fn find(&self, path: &str, scopes: &[Scope<'v>]) -> Found<'v> {
        let mut outward = 0;
        let mut path = path;
        while let Some(rest) = path.strip_prefix("../") {
            (path, outward) = (rest, outward + 1);
        }
        let Some(scope) = scopes.len().checked_sub(outward + 1).map(|at| scopes[at]) else { return Found::Nothing };
        match path {
            "@key" => return scope.key.map_or(Found::Number(scope.index), Found::Text),
            "@index" => return Found::Number(scope.index),
            "@first" => return Found::Truth(scope.index == 0),
            "@last" => return Found::Truth(scope.is_last),
            "." | "this" => return Found::Value(scope.value),
            _ => {}
        }
        let is_outermost = scopes.len() == outward + 1;
        let from_root = path.strip_prefix("@root.");
        let path = from_root.or_else(|| path.strip_prefix("this.")).unwrap_or(path);
        let value = if from_root.is_some() { self.root } else { scope.value };
        let found = lookup(value, path);
        if found.is_none() && (is_outermost || from_root.is_some()) {
            // The context by its name, unless it has a field of that name.
            let inner = if path == "context" {
                Some(self.root)
            } else {
                path.strip_prefix("context.").and_then(|path| lookup(self.root, path))
            };
            return inner.map_or(Found::Nothing, Found::Value);
        }
        found.map_or(Found::Nothing, Found::Value)
    }
}

fn lookup<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, name| match value {
        Value::Object(fields) => fields.get(name.trim_matches(['[', ']'])),
        Value::Array(values) => values.get(name.trim_matches(['[', ']']).parse::<usize>().ok()?),
        _ => None,
    })
}

fn has_elements(value: &Value) -> bool {
    match value {
        Value::Array(values) => !values.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    }
}

fn is_true(found: &Found<'_>) -> bool {
    match found {
        Found::Value(value) => match value {
            Value::Null => false,
            Value::Bool(truth) => *truth,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            Value::Array(values) => !values.is_empty(),
            Value::Object(_) => true,
        },
        Found::Number(number) => *number != 0,
        Found::Truth(truth) => *truth,
        Found::Text(text) => !text.is_empty(),
        Found::Nothing => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(template: &str) -> String {
        let context =
            json!({"n": 2, "tools": [{"name": "a", "out": {"x": 1, "y": 2}}, {"name": "b"}], "none": [], "o": {"k": "v"}});
        render(template, &context, 1_000).unwrap_or_else(|reason| format!("error: {reason}"))
    }

    #[test]
    fn values_blocks_and_scopes_are_those_of_handlebars() {
        for (template, expected) in [
            ("{{n}} {{ context.n }} {{absent}}|{{absent.deep}}|{{{o.k}}}", "2 2 ||v"),
            ("{{#each tools}}{{name}}{{#unless @last}}, {{/unless}}{{/each}}", "a, b"),
            (
                "{{#each tools}}{{@index}}{{#if out}}:{{#each out}}{{@key}}={{this}};{{/each}}{{else}}-{{/if}}{{/each}}",
                "0:x=1;y=2;1-",
            ),
            ("{{#each none}}x{{else}}empty{{/each}}", "empty"),
            ("{{#each tools}}{{../n}}{{@root.o.k}}{{n}}{{/each}}", "2v2v"),
            ("{{#with o}}{{k}}{{/with}}{{#if none}}x{{/if}}{{! a note }}", "v"),
            ("a\n{{#each tools}}\n- {{name}}\n{{/each}}\nb", "a\n- a\n- b\nb"),
        ] {
            assert_eq!(shown(template), expected, "{template}");
        }
    }

    #[test]
    fn what_is_not_part_of_it_is_an_error() {
        for template in
            ["{{#each tools}}", "{{/if}}", "{{#if n}}{{/each}}", "{{helper a b}}", "{{> partial}}", "{{#list a}}{{/list}}", "{{n"]
        {
            assert!(shown(template).starts_with("error: "), "{template}");
        }
    }

    #[test]
    fn a_template_cannot_grow_without_bound() {
        let context = json!({"a": vec![0; 1_000]});
        let nested = format!("{}x{}", "{{#each @root.a}}".repeat(4), "{{/each}}".repeat(4));
        let reason = render(&nested, &context, usize::MAX).unwrap_err();
        assert!(reason.contains("steps"), "{reason}");
        assert!(render("{{#each a}}0123456789{{/each}}", &context, 100).unwrap_err().contains("100 bytes"));
    }
}
