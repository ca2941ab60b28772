//! Sites of mutants: each mutant of a list is found again in the source as an expression, an arm or a body.
//!
//! `cargo mutants` names a mutant by the characters that it would replace. Planting all of them at once needs more:
//! the whole expression around an operator, so that a switch can replace it. Places that cannot have a switch, such as
//! an operator in a chain with `let` or anything in a `const fn`, are left out and reported.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use anyhow::Context;
use proc_macro2::LineColumn;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, Block, Expr, ExprBinary, ExprStruct, ExprUnary, FieldValue, Member, Pat, Signature};

use crate::list::{Genre, Mutant};

/// A place of mutants: what comes before and after the text that is there.
#[derive(Debug)]
pub(crate) struct Site {
    /// The text that they surround or precede, in bytes of the source.
    pub(crate) span: Range<usize>,
    /// Text before it.
    pub(crate) before: String,
    /// Text after it.
    pub(crate) after: String,
    /// The mutants of this place, each with the part of `before` that is its text.
    pub(crate) mutants: Vec<(u32, Range<usize>)>,
}

/// Sites of one file.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    /// Possible sites of mutants.
    pub(crate) sites: Vec<Site>,
    /// The mutants that cannot, with the reason.
    pub(crate) left_out: Vec<(u32, &'static str)>,
}

/// Finds the places of `mutants` in `source`.
pub(crate) fn find(source: &str, mutants: &[&Mutant]) -> anyhow::Result<Sites> {
    let file = syn::parse_file(source).context("the source cannot be parsed")?;
    let text = Text::new(source);
    let mut wanted: BTreeMap<(usize, Genre), Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        wanted
            .entry((text.offset_of(mutant.span.start.line, mutant.span.start.column - 1), mutant.genre))
            .or_default()
            .push(mutant);
    }
    let mut finder = Finder { text, wanted, found: Sites::default(), constant: false };
    finder.visit_file(&file);
    let Finder { wanted, mut found, .. } = finder;
    found.left_out.extend(wanted.into_values().flatten().map(|mutant| (mutant.id, "no place in the source was recognised")));
    Ok(found)
}

/// A source, with its lines.
struct Text<'a> {
    source: &'a str,
    lines: Vec<usize>,
}

impl<'a> Text<'a> {
    fn new(source: &'a str) -> Self {
        let lines = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { source, lines }
    }

    /// Returns the byte at the character `column`, from 0, of `line`, from 1.
    fn offset_of(&self, line: usize, column: usize) -> usize {
        let start = self.lines[line - 1];
        self.source[start..].char_indices().nth(column).map_or(self.source.len(), |(at, _)| start + at)
    }

    fn at(&self, place: LineColumn) -> usize {
        self.offset_of(place.line, place.column)
    }

    fn range(&self, node: &impl Spanned) -> Range<usize> {
        let span = node.span();
        self.at(span.start())..self.at(span.end())
    }

    fn of(&self, node: &impl Spanned) -> &'a str {
        &self.source[self.range(node)]
    }
}

struct Finder<'a, 'm> {
    text: Text<'a>,
    wanted: BTreeMap<(usize, Genre), Vec<&'m Mutant>>,
    found: Sites,
    /// Inside a function that may run while compiling, where no switch can be read.
    constant: bool,
}

impl Finder<'_, '_> {
    /// Removes and returns the mutants of `genre` at `offset`, which count as found.
    fn take(&mut self, offset: usize, genre: Genre) -> Vec<(u32, String)> {
        let mutants = self.wanted.remove(&(offset, genre)).unwrap_or_default();
        mutants.into_iter().map(|mutant| (mutant.id, mutant.replacement.clone())).collect()
    }

    fn leave_out(&mut self, mutants: Vec<(u32, String)>, why: &'static str) {
        self.found.left_out.extend(mutants.into_iter().map(|(id, _)| (id, why)));
    }

    /// Puts a switch in the place of `span`, with a text for each mutant.
    fn switch(&mut self, span: Range<usize>, mutants: Vec<(u32, String)>) {
        if mutants.is_empty() {
            return;
        }
        if self.constant {
            return self.leave_out(mutants, "it is in a const fn");
        }
        let ids: Vec<String> = mutants.iter().map(|(id, _)| id.to_string()).collect();
        let mut before = format!("(match crate::mutation::at(&[{}]) {{ ", ids.join(", "));
        let mut places = Vec::new();
        for (id, text) in mutants {
            write!(before, "{id} => {{ ").expect("a text takes what is written to it");
            places.push((id, before.len()..before.len() + text.len()));
            before += &text;
            before += " } ";
        }
        before += "_ => ";
        self.found.sites.push(Site { span, before, after: " })".to_owned(), mutants: places });
    }

    /// Plants an early return in a body, before its first statement.
    fn body(&mut self, block: &Block) {
        let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) else { return };
        let span = self.text.range(first).start..self.text.range(last).end;
        let mutants = self.take(span.start, Genre::FnValue);
        if self.constant {
            return self.leave_out(mutants, "it is in a const fn");
        }
        for (id, value) in mutants {
            let before = format!("if crate::mutation::on({id}) {{ return {value}; }} ");
            let places = vec![(id, 0..before.len())];
            self.found.sites.push(Site { span: span.clone(), before, after: String::new(), mutants: places });
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        let outer = std::mem::replace(&mut self.constant, signature.constness.is_some());
        self.body(block);
        visit::visit_block(self, block);
        self.constant = outer;
    }
}

/// Whether a `let` of a chain is part of `condition`.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        Expr::Paren(inner) => has_let(&inner.expr),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_, '_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        let mutants = self.take(self.text.range(&binary.op).start, Genre::BinaryOperator);
        if has_let(&binary.left) || has_let(&binary.right) {
            self.leave_out(mutants, "it joins conditions that bind names");
        } else {
            let (left, right) = (self.text.of(&*binary.left), self.text.of(&*binary.right));
            let mutants = mutants.into_iter().map(|(id, operator)| (id, format!("({left}) {operator} ({right})"))).collect();
            self.switch(self.text.range(binary), mutants);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        let mutants = self.take(self.text.range(&unary.op).start, Genre::UnaryOperator);
        let inner = self.text.of(&*unary.expr).to_owned();
        self.switch(self.text.range(unary), mutants.into_iter().map(|(id, _)| (id, inner.clone())).collect());
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, matched: &'ast syn::ExprMatch) {
        let catches_all = |arm: &Arm| match &arm.pat {
            Pat::Wild(_) => true,
            // A name that begins with a capital is a variant, such as `None`, or a constant.
            Pat::Ident(name) => name.subpat.is_none() && name.ident.to_string().starts_with(char::is_lowercase),
            _ => false,
        };
        // Without a last arm for everything else, the compiler refuses a match that lacks any of its arms.
        let needed = match matched.arms.split_last() {
            Some((last, _)) if catches_all(last) => std::slice::from_ref(last),
            _ => &matched.arms[..],
        };
        for arm in needed {
            let dropped = self.take(self.text.range(&arm.pat).start, Genre::MatchArm);
            self.leave_out(dropped, "its match would not cover everything without it");
        }
        visit::visit_expr_match(self, matched);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        let guard = match &arm.pat {
            Pat::Guard(pattern) => Some(&*pattern.guard),
            _ => None,
        };
        let dropped = self.take(self.text.range(&arm.pat).start, Genre::MatchArm);
        let guarded = guard.map(|guard| self.take(self.text.range(guard).start, Genre::MatchArmGuard)).unwrap_or_default();
        if guard.is_some_and(has_let) {
            self.leave_out(dropped, "its arm binds names in its guard");
            self.leave_out(guarded, "its arm binds names in its guard");
        } else if self.constant {
            self.leave_out(dropped, "it is in a const fn");
            self.leave_out(guarded, "it is in a const fn");
        } else {
            for (id, _) in dropped {
                let switch = format!("!crate::mutation::on({id})");
                let (span, before, after) = if let Some(guard) = guard {
                    (self.text.range(guard), format!("({switch} && ("), "))")
                } else {
                    let end = self.text.range(&arm.pat).end;
                    (end..end, format!(" if {switch}"), "")
                };
                let places = vec![(id, 0..before.len())];
                self.found.sites.push(Site { span, before, after: after.to_owned(), mutants: places });
            }
            if let Some(guard) = guard {
                self.switch(self.text.range(guard), guarded);
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, made: &'ast ExprStruct) {
        if let Some(rest) = &made.rest {
            let rest = self.text.of(&**rest);
            for field in &made.fields {
                self.left_out_field(field, rest);
            }
        }
        visit::visit_expr_struct(self, made);
    }
}

impl Finder<'_, '_> {
    /// Plants a field that is left out: it gets the value that the rest of the expression gives it.
    fn left_out_field(&mut self, field: &FieldValue, rest: &str) {
        let mutants = self.take(self.text.range(field).start, Genre::StructField);
        let Member::Named(name) = &field.member else { return self.leave_out(mutants, "its field has no name") };
        let value = mutants.into_iter().map(|(id, _)| (id, format!("({rest}).{name}"))).collect();
        if field.colon_token.is_some() {
            self.switch(self.text.range(&field.expr), value);
        } else {
            self.leave_out(value, "its field is written short");
        }
    }
}
