//! Nesting of a template, judged by its tokens: the parser, the compiler and the dropping of a tree all recurse.

use std::borrow::Cow;

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::TemplateError;

/// Brackets, operators and blocks that may be nested. Prompts need ten.
const MAX_NESTING: usize = 120;

/// A variable that is 1. It is part of every product, so that no product is constant: the compiler would evaluate
/// `'a' * 100000000` while a template is read.
pub(super) const ONE: &str = "__one";

/// Text that is inserted after the sign of a product.
pub(super) const FACTOR: &str = " __one *";

/// Refuses a template that nests too deep. Returns it with a factor [`ONE`] in every product.
pub(super) fn judge<'s>(source: &'s str, is_expression: bool, syntax: &SyntaxConfig) -> Result<Cow<'s, str>, TemplateError> {
    if !is_expression && !source.contains('{') {
        return Ok(Cow::Borrowed(source));
    }
    let mut nesting = Nesting::default();
    let mut products = Vec::new();
    for token in tokenize(source, is_expression, syntax.clone()) {
        // Whatever is no token is a fault of syntax, which the parser words.
        let Ok((token, span)) = token else { break };
        if matches!(token, Token::Mul) && nesting.has_operand {
            products.push(span.end_offset as usize);
        }
        nesting.add(&token);
        if nesting.depth() > MAX_NESTING {
            return Err(TemplateError {
                message: format!("it nests more than {MAX_NESTING} blocks, brackets and operators"),
                line: Some(span.start_line.into()),
                range: Some(span.start_offset as usize..span.end_offset as usize),
                part: None,
            });
        }
    }
    if products.is_empty() {
        return Ok(Cow::Borrowed(source));
    }
    let mut judged = String::with_capacity(source.len() + products.len() * FACTOR.len());
    let mut begin = 0;
    for end in products {
        judged.push_str(&source[begin..end]);
        judged.push_str(FACTOR);
        begin = end;
    }
    judged.push_str(&source[begin..]);
    Ok(Cow::Owned(judged))
}

/// Nesting of the tokens so far. Operators of one expression nest in each other; a comma begins anew.
#[derive(Default)]
struct Nesting {
    /// The depth at which each open block began. An `elif` is a block within the `if`.
    blocks: Vec<usize>,
    /// The depth at which each open bracket began.
    brackets: Vec<usize>,
    /// Operators since the last bracket or comma, with everything round them.
    operators: usize,
    /// Whether the last token can be the left side of an operator.
    has_operand: bool,
    /// The tag's first word is next.
    begins_block: bool,
}

impl Nesting {
    fn depth(&self) -> usize {
        self.blocks.last().copied().unwrap_or(0) + self.operators
    }

    fn add(&mut self, token: &Token<'_>) {
        let begins_block = std::mem::take(&mut self.begins_block);
        match token {
            Token::BlockStart => {
                self.start();
                self.begins_block = true;
            }
            Token::TemplateData(_) | Token::VariableStart | Token::VariableEnd | Token::BlockEnd => self.start(),
            Token::Ident(word) if begins_block => self.open_block(word),
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => {
                self.brackets.push(self.operators);
                self.operators += 1;
            }
            // What follows the bracket is about the whole of it.
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                self.operators = self.brackets.pop().unwrap_or(0) + 1;
            }
            Token::Comma | Token::Colon => self.operators = self.brackets.last().map_or(0, |depth| depth + 1),
            Token::Ident("and" | "or" | "not" | "in" | "is" | "if" | "else") => self.operators += 1,
            Token::Ident(_) | Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => {}
            _ => self.operators += 1,
        }
        self.has_operand = matches!(
            token,
            Token::Ident(_)
                | Token::Str(_)
                | Token::String(_)
                | Token::Int(_)
                | Token::Int128(_)
                | Token::Float(_)
                | Token::ParenClose
                | Token::BracketClose
                | Token::BraceClose
        );
    }

    fn start(&mut self) {
        self.brackets.clear();
        self.operators = 0;
    }

    fn open_block(&mut self, word: &str) {
        let within = self.blocks.last().copied().unwrap_or(0);
        match word {
            "for" | "if" | "with" | "filter" | "macro" | "call" | "block" | "autoescape" => self.blocks.push(within + 1),
            // The next case of an `if` is compiled within the one before.
            "elif" => {
                if let Some(depth) = self.blocks.last_mut() {
                    *depth += 1;
                }
            }
            word if word.starts_with("end") && word != "endset" => {
                self.blocks.pop();
            }
            _ => {}
        }
    }
}
