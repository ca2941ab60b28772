//! Instructions with a meter: a step behind each that makes text, a list or an object.
//!
//! minijinja has no hook for its operators. Its instructions are public, so what cannot be asked there is put between
//! them. Each step is a filter whose name no template can spell.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::machinery::{Instruction, Instructions};
use minijinja::value::{Enumerator, Object, Tuple, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, Output, State, escape_formatter};

use super::meter::{ENTRY, Extent, charge};

const SETTLE: &str = "\u{1}settle";
const CONCAT: &str = "\u{1}concat";
const MULTIPLY: &str = "\u{1}multiply";
const ASSIGN: &str = "\u{1}assign";

/// A filter that is looked up by its name each time.
const BY_NAME: u8 = !0;

/// Adds the steps to `environment`.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_filter(SETTLE, settle);
    environment.add_filter(CONCAT, concat);
    environment.add_filter(MULTIPLY, multiply);
    environment.add_filter(ASSIGN, assign);
    environment.add_function("namespace", namespace);
    environment.add_global(super::scan::ONE, 1);
    environment.set_formatter(emit);
}

/// `plain` with the steps of the meter.
pub(super) fn metered<'s>(plain: &Instructions<'s>) -> Instructions<'s> {
    let (mut starts, mut steps) = (Vec::new(), Vec::new());
    for index in 0.. {
        starts.push(steps.len() as u32);
        let Some(instruction) = plain.get(index) else { break };
        expand(instruction, |target| target, &mut steps);
    }
    let moved = |target: u32| starts.get(target as usize).copied().unwrap_or(target);
    let mut metered = Instructions::new(plain.name(), plain.source());
    for index in 0.. {
        let Some(instruction) = plain.get(index) else { break };
        steps.clear();
        expand(instruction, moved, &mut steps);
        for step in steps.drain(..) {
            match (plain.get_span(index), plain.get_line(index)) {
                (Some(span), _) => metered.add_with_span(step, span),
                (None, Some(line)) => metered.add_with_line(step, line as u16),
                (None, None) => metered.add(step),
            };
        }
    }
    metered
}

/// Appends the replacement of `instruction`; `moved` returns the new target of a jump.
fn expand<'s>(instruction: &Instruction<'s>, moved: impl Fn(u32) -> u32, steps: &mut Vec<Instruction<'s>>) {
    let filter = |name, arguments| Instruction::ApplyFilter(name, Some(arguments), BY_NAME);
    match instruction {
        // Text within a loop is written as often as the loop goes round, so the formatter sees it too.
        Instruction::EmitRaw(text) => {
            steps.extend([Instruction::LoadConst(Value::from_safe_string((*text).to_owned())), Instruction::Emit]);
        }
        Instruction::StringConcat => steps.push(filter(CONCAT, 2)),
        Instruction::Mul => steps.push(filter(MULTIPLY, 2)),
        Instruction::SetAttr(name) => {
            steps.extend([Instruction::LoadConst(Value::from(*name)), filter(ASSIGN, 3), Instruction::DiscardTop]);
        }
        Instruction::Add
        | Instruction::Slice
        | Instruction::BuildList(_)
        | Instruction::BuildTuple(_)
        | Instruction::BuildMap(_)
        | Instruction::ApplyFilter(..)
        | Instruction::CallFunction(..)
        | Instruction::CallMethod(..)
        | Instruction::CallObject(_) => steps.extend([instruction.clone(), filter(SETTLE, 1)]),
        Instruction::Iterate(target) => steps.push(Instruction::Iterate(moved(*target))),
        Instruction::Jump(target) => steps.push(Instruction::Jump(moved(*target))),
        Instruction::JumpIfFalse(target) => steps.push(Instruction::JumpIfFalse(moved(*target))),
        Instruction::JumpIfFalseOrPop(target) => steps.push(Instruction::JumpIfFalseOrPop(moved(*target))),
        Instruction::JumpIfTrueOrPop(target) => steps.push(Instruction::JumpIfTrueOrPop(moved(*target))),
        Instruction::BuildMacro(name, target, flags) => steps.push(Instruction::BuildMacro(name, moved(*target), *flags)),
        _ => steps.push(instruction.clone()),
    }
}

/// Writes a value, charged as what it makes.
fn emit(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let text = Extent::of(value)?.text;
    let is_escaped = !value.is_safe() && *state.auto_escape() != minijinja::AutoEscape::None;
    charge(if is_escaped { text * 6 } else { text })?;
    escape_formatter(out, state, value)
}

/// Charges a value that was just made. A sequence that is only a promise of one becomes one, so that promises do not pile up.
fn settle(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Bytes => charge(Extent::of(&value)?.text)?,
        ValueKind::Map => charge(Extent::of(&value)?.nodes * ENTRY)?,
        ValueKind::Seq | ValueKind::Iterable => {
            charge(Extent::of(&value)?.nodes * ENTRY)?;
            if !value.is_tuple() && value.downcast_object_ref::<Vec<Value>>().is_none() {
                return Ok(Value::from(value.try_iter()?.collect::<Vec<_>>()));
            }
        }
        _ => {}
    }
    Ok(value)
}

/// `left ~ right`.
fn concat(left: Value, right: Value) -> Result<Value, Error> {
    if left.is_undefined() || right.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    charge(Extent::of(&left)?.text + Extent::of(&right)?.text)?;
    Ok(Value::from(format!("{left}{right}")))
}

/// `left * right`: of numbers, or of a text or a sequence and a count.
fn multiply(left: Value, right: Value) -> Result<Value, Error> {
    let repeatable = |value: &Value| matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable);
    match (repeatable(&left), repeatable(&right)) {
        (true, _) => repeat(&left, &right),
        (false, true) => repeat(&right, &left),
        (false, false) => product(&left, &right),
    }
}

fn repeat(value: &Value, count: &Value) -> Result<Value, Error> {
    let count = if count.is_integer() { usize::try_from(count.clone()).ok() } else { None };
    let count = count.ok_or_else(|| refuse("text and lists can only be multiplied by a count"))?;
    let extent = Extent::of(value)?;
    if let Some(text) = value.as_str() {
        charge(extent.text.saturating_mul(count as u64))?;
        return Ok(Value::from(text.repeat(count)));
    }
    charge(extent.nodes.saturating_mul(ENTRY).max(extent.text).saturating_mul(count as u64))?;
    let items: Vec<Value> = value.try_iter()?.collect();
    let repeated: Vec<Value> = std::iter::repeat_n(items, count).flatten().collect();
    Ok(if value.is_tuple() { Value::from(Tuple::from(repeated)) } else { Value::from(repeated) })
}

fn product(left: &Value, right: &Value) -> Result<Value, Error> {
    if left.is_undefined() || right.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let impossible = || refuse(format!("tried to use * operator on unsupported types {} and {}", left.kind(), right.kind()));
    let whole = |value: &Value| {
        let is_whole = value.is_integer() || value.kind() == ValueKind::Bool;
        if is_whole { i128::try_from(value.clone()).ok() } else { None }
    };
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        let product = left.checked_mul(right).ok_or_else(|| refuse(format!("unable to calculate {left} * {right}")))?;
        return Ok(i64::try_from(product).map_or_else(|_| Value::from(product), Value::from));
    }
    let number = |value: &Value| match whole(value) {
        Some(whole) => Ok(whole as f64),
        None if value.kind() == ValueKind::Number => f64::try_from(value.clone()),
        None => Err(impossible()),
    };
    Ok(Value::from(number(left)? * number(right)?))
}

/// Result of `namespace()`: names that can be set from within a loop.
///
/// minijinja's own would let a namespace hold itself, or a chain of namespaces as long as a loop goes round. Neither
/// could be shown, compared or dropped.
#[derive(Debug, Default)]
pub(super) struct Namespace(Mutex<BTreeMap<Arc<str>, Value>>);

impl Object for Namespace {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key.as_str()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Enumerator::Values(names.keys().cloned().map(Value::from).collect())
    }
}

impl Namespace {
    fn set(&self, name: &str, value: Value) -> Result<(), Error> {
        let extent = Extent::of(&value)?;
        if extent.holds_namespace {
            return Err(refuse("a namespace cannot hold a namespace"));
        }
        charge(ENTRY + name.len() as u64)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.into(), value);
        Ok(())
    }
}

/// `namespace(a=1)`, or of an object.
fn namespace(defaults: Option<ValueOrKwargs>) -> Result<Value, Error> {
    let made = Namespace::default();
    if let Some(defaults) = defaults.map(ValueOrKwargs::into_value) {
        if defaults.kind() != ValueKind::Map {
            return Err(refuse(format!("expected object or keyword arguments, got {}", defaults.kind())));
        }
        for name in defaults.try_iter()? {
            made.set(name.as_str().unwrap_or_default(), defaults.get_item(&name)?)?;
        }
    }
    Ok(Value::from_object(made))
}

/// `{% set namespace.name = value %}`.
fn assign(value: Value, namespace: Value, name: &str) -> Result<(), Error> {
    match namespace.downcast_object_ref::<Namespace>() {
        Some(namespace) => namespace.set(name, value),
        None => Err(refuse(format!("can only assign to namespaces, not {}", namespace.kind()))),
    }
}

fn refuse(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}
