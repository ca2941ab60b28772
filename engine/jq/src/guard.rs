//! Rewrites filters so that everything they make is weighed and every step is counted.
//!
//! Rejected: wrapping the value type. It would have to repeat the whole of jaq's, and a loop that makes no value would
//! still never end. Rejected: a check behind every part. A definition that calls itself last must stay last, or
//! `repeat` and `until` would need stack for each round; so definitions are counted where they begin.

use baton_types::json::nesting;
use jaq_core::box_iter::box_once;
use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::native::{Fun, v};
use jaq_core::ops::Math;
use jaq_core::path::{Part, Path};
use jaq_core::{Exn, Native};
use jaq_json::Val;

use super::Data;
use super::meter::{MAX_NESTING, check, check_product, step, stop_on};

/// Counts a step. No text can mention these names.
const STEP: &str = "!step";
/// Counts a step and weighs the value.
const CHECK: &str = "!check";
/// Multiplies, unless the product would be huge.
const PRODUCT: &str = "!product";
/// Refuses a text that would be read as deeply nested JSON.
const SHALLOW: &str = "!shallow";
/// Refuses a text that is too long to be searched with a pattern.
const SEARCHED: &str = "!searched";
/// Refuses a pattern that would find too many groups.
const PATTERN: &str = "!pattern";
/// The variable of a rewritten `*=`.
const FACTOR: &str = "$!factor";

/// Functions that search with a pattern, their first argument. Each match makes an object per group.
const SEARCHES: [&str; 3] = ["matches", "split_matches", "split_"];
/// The longest text that is searched.
const MAX_SEARCHED_BYTES: usize = 64 * 1024;
/// The longest pattern.
const MAX_PATTERN_BYTES: usize = 200;
/// The most groups of a pattern.
const MAX_GROUPS: usize = 10;

type T<'s> = Term<&'s str>;

/// Knows which names are functions, whose results are weighed, rather than definitions.
pub(super) struct Guard<'n> {
    natives: &'n [(&'n str, usize)],
}

impl<'n> Guard<'n> {
    /// Returns a guard for a library with these functions: name and number of arguments.
    pub(super) fn new(natives: &'n [(&'n str, usize)]) -> Self {
        Self { natives }
    }

    /// Returns the definition with its body guarded, counted where it begins.
    pub(super) fn definition<'s>(&self, definition: Def<&'s str>) -> Def<&'s str> {
        Def { body: pipe(call(STEP, Vec::new()), self.term(definition.body)), ..definition }
    }

    fn boxed<'s>(&self, mut term: Box<T<'s>>) -> Box<T<'s>> {
        *term = self.term(std::mem::take(&mut *term));
        term
    }

    fn term<'s>(&self, term: T<'s>) -> T<'s> {
        match term {
            Term::Id | Term::Num(_) | Term::Var(_) | Term::Break(_) => term,
            Term::Recurse => counted(Term::Recurse),
            Term::Str(format, parts) => self.text(format, parts),
            Term::Arr(inner) => checked(Term::Arr(inner.map(|inner| self.boxed(inner)))),
            Term::Obj(entries) => checked(Term::Obj(entries.into_iter().map(|entry| self.entry(entry)).collect())),
            Term::Neg(inner) => checked(Term::Neg(self.boxed(inner))),
            Term::BinOp(left, operator, right) => self.operation(*left, operator, *right),
            Term::Label(name, inner) => Term::Label(name, self.boxed(inner)),
            Term::Fold(name, values, pattern, arguments) => {
                let arguments = arguments.into_iter().map(|argument| self.term(argument)).collect();
                Term::Fold(name, self.boxed(values), self.pattern(pattern), arguments)
            }
            Term::TryCatch(inner, caught) => Term::TryCatch(self.boxed(inner), caught.map(|caught| self.boxed(caught))),
            Term::IfThenElse(branches, otherwise) => {
                let branches = branches.into_iter().map(|(test, then)| (self.term(test), self.term(then))).collect();
                Term::IfThenElse(branches, otherwise.map(|otherwise| self.boxed(otherwise)))
            }
            Term::Def(definitions, inner) => {
                let definitions = definitions.into_iter().map(|definition| self.definition(definition)).collect();
                Term::Def(definitions, self.boxed(inner))
            }
            Term::Call(name, arguments) => self.call(name, arguments),
            Term::Path(from, path) => {
                let part = |part: Part<T<'s>>| match part {
                    Part::Index(index) => Part::Index(self.term(index)),
                    Part::Range(from, to) => Part::Range(from.map(|from| self.term(from)), to.map(|to| self.term(to))),
                };
                let parts = path.0.into_iter().map(|(step, optional)| (part(step), optional)).collect();
                counted(Term::Path(self.boxed(from), Path(parts)))
            }
        }
    }

    fn text<'s>(&self, format: Option<&'s str>, parts: Vec<StrPart<&'s str, T<'s>>>) -> T<'s> {
        let plain = !parts.iter().any(|part| matches!(part, StrPart::Term(_)));
        let guarded = parts.into_iter().map(|part| match part {
            StrPart::Term(term) => StrPart::Term(self.term(term)),
            other => other,
        });
        let text = Term::Str(format, guarded.collect());
        if plain { text } else { checked(text) }
    }

    /// Returns an entry of an object. The form of a key alone, as in `{a}` or `{$x}`, determines its value.
    fn entry<'s>(&self, (key, value): (T<'s>, Option<T<'s>>)) -> (T<'s>, Option<T<'s>>) {
        match value {
            None => (key, None),
            Some(value) => (self.term(key), Some(self.term(value))),
        }
    }

    fn operation<'s>(&self, left: T<'s>, operator: BinaryOp<&'s str>, right: T<'s>) -> T<'s> {
        let (left, right) = (self.term(left), self.term(right));
        let binary = |left, operator, right| Term::BinOp(Box::new(left), operator, Box::new(right));
        match operator {
            BinaryOp::Pipe(pattern) => binary(left, BinaryOp::Pipe(pattern.map(|pattern| self.pattern(pattern))), right),
            BinaryOp::Math(Math::Mul) => checked(call(PRODUCT, vec![left, right])),
            // `l *= r` is `r as $x | l |= . * $x`.
            BinaryOp::UpdateMath(Math::Mul) => {
                let product = checked(call(PRODUCT, vec![Term::Id, Term::Var(FACTOR)]));
                let update = checked(binary(left, BinaryOp::Update, product));
                binary(right, BinaryOp::Pipe(Some(Pattern::Var(FACTOR))), update)
            }
            BinaryOp::Math(_) | BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
                checked(binary(left, operator, right))
            }
            BinaryOp::Comma | BinaryOp::Alt | BinaryOp::Or | BinaryOp::And | BinaryOp::Cmp(_) => binary(left, operator, right),
        }
    }

    fn pattern<'s>(&self, pattern: Pattern<&'s str>) -> Pattern<&'s str> {
        match pattern {
            Pattern::Var(name) => Pattern::Var(name),
            Pattern::Arr(patterns) => Pattern::Arr(patterns.into_iter().map(|pattern| self.pattern(pattern)).collect()),
            Pattern::Obj(entries) => {
                Pattern::Obj(entries.into_iter().map(|(key, pattern)| (self.term(key), self.pattern(pattern))).collect())
            }
        }
    }

    fn call<'s>(&self, name: &'s str, arguments: Vec<T<'s>>) -> T<'s> {
        let mut arguments: Vec<T<'s>> = arguments.into_iter().map(|argument| self.term(argument)).collect();
        if !self.natives.contains(&(name, arguments.len())) {
            return call(name, arguments);
        }
        if name == "fromjson" {
            return pipe(call(SHALLOW, Vec::new()), checked(call(name, arguments)));
        }
        if SEARCHES.contains(&name) {
            if let Some(pattern) = arguments.first_mut() {
                *pattern = pipe(std::mem::take(pattern), call(PATTERN, Vec::new()));
            }
            return pipe(call(SEARCHED, Vec::new()), checked(call(name, arguments)));
        }
        checked(call(name, arguments))
    }
}

fn call<'s>(name: &'s str, arguments: Vec<T<'s>>) -> T<'s> {
    Term::Call(name, arguments)
}

fn pipe<'s>(left: T<'s>, right: T<'s>) -> T<'s> {
    Term::BinOp(Box::new(left), BinaryOp::Pipe(None), Box::new(right))
}

fn counted(term: T<'_>) -> T<'_> {
    pipe(term, call(STEP, Vec::new()))
}

fn checked(term: T<'_>) -> T<'_> {
    pipe(term, call(CHECK, Vec::new()))
}

/// A function that looks at its input and hands it on, so that paths and updates pass through it.
macro_rules! transparent {
    ($look:expr) => {
        Native::new(|cv| {
            $look(&cv.1);
            box_once(Ok(cv.1))
        })
        .with_paths(|cv| {
            $look(&cv.1.0);
            box_once(Ok(cv.1))
        })
        .with_update(|cv, update| {
            $look(&cv.1);
            update(cv.1)
        })
    };
}

/// Ends the filter if `value` is a text that is `bad`.
fn refuse(value: &Val, bad: impl Fn(&str) -> bool, does: &str) {
    if let Val::TStr(text) = value
        && bad(&String::from_utf8_lossy(text))
    {
        stop_on(Err(format!("the filter {does}")));
    }
}

/// Whether a pattern could find more than there is room for.
fn is_costly(pattern: &str) -> bool {
    pattern.len() > MAX_PATTERN_BYTES || pattern.matches('(').count() > MAX_GROUPS
}

/// Returns the functions that guarded filters call. Those that hand their input on are transparent to paths and updates.
pub(super) fn functions() -> impl Iterator<Item = Fun<Data>> {
    [
        (STEP, v(0), transparent!(|_: &Val| step())),
        (CHECK, v(0), transparent!(|value: &Val| check(value))),
        (
            SHALLOW,
            v(0),
            transparent!(|value: &Val| refuse(value, |text| nesting(text) > MAX_NESTING, "reads JSON that nests too deep")),
        ),
        (
            SEARCHED,
            v(0),
            transparent!(|value: &Val| refuse(value, |text| text.len() > MAX_SEARCHED_BYTES, "searches a text that is too long")),
        ),
        (PATTERN, v(0), transparent!(|value: &Val| refuse(value, is_costly, "searches with a pattern that is too long"))),
        (
            PRODUCT,
            v(2),
            Native::new(|mut cv| {
                let right = cv.0.pop_var();
                let left = cv.0.pop_var();
                check_product(&left, &right);
                box_once((left * right).map_err(Exn::from))
            }),
        ),
    ]
    .into_iter()
}
