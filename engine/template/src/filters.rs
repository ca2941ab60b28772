//! Standard filters that can make much more than they are given: each is charged before it begins.

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, filters};

use super::meter::{ENTRY, Extent, charge};

/// Number of bytes that a filter will make of its arguments.
type Cost = fn(&[Value]) -> Result<u64, Error>;

/// Adds a charge before each filter that needs one, and removes unused filters.
pub(super) fn install(environment: &mut Environment<'static>) {
    macro_rules! charge_before {
        ($($name:ident: $cost:expr,)*) => {$(
            let own = concat!("\u{1}", stringify!($name));
            environment.add_filter(own, filters::$name);
            environment.add_filter(stringify!($name), guarded(own, $cost));
        )*};
    }
    charge_before! {
        batch: batch, slice: slice, format: format, indent: indent, join: join, replace: replace, tojson: tojson,
        split: split, lines: split, list: entries, reverse: entries, sort: entries, unique: entries, map: entries,
        select: entries, reject: entries, selectattr: entries, rejectattr: entries, groupby: entries, dictsort: entries,
        items: entries, zip: entries, sum: text, escape: escaped, lower: escaped, upper: escaped, title: escaped,
        capitalize: escaped, string: text, trim: text,
    }
    environment.add_filter("e", guarded("\u{1}escape", escaped));
    // Both show the inside of values, indented by their depth; `chain` is a promise that grows with each use.
    environment.remove_filter("pprint");
    environment.remove_filter("chain");
    environment.remove_global("debug");
}

fn guarded(
    own: &'static str,
    cost: Cost,
) -> impl Fn(&mut State<'_, '_>, Rest<ValueOrKwargs>) -> Result<Value, Error> + Send + Sync + 'static {
    move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
        let arguments = arguments.into_values();
        charge(cost(&arguments)?)?;
        state.apply_filter(own, &arguments)
    }
}

/// Returns the argument at `position`, or the one called `name`.
fn argument(arguments: &[Value], position: usize, name: &str) -> Option<Value> {
    let is_named = |value: &&Value| value.kind() == ValueKind::Map;
    let named = arguments.last().filter(is_named).and_then(|named| named.get_attr(name).ok());
    let placed = arguments.get(position).filter(|value| !is_named(value)).cloned();
    placed.or(named).filter(|value| !value.is_undefined())
}

fn count(value: Option<Value>) -> u64 {
    value.and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
}

fn extent(arguments: &[Value], position: usize) -> Result<Extent, Error> {
    arguments.get(position).map_or_else(|| Ok(Extent::default()), Extent::of)
}

/// As much as the value is as text.
fn text(arguments: &[Value]) -> Result<u64, Error> {
    Ok(extent(arguments, 0)?.text)
}

fn escaped(arguments: &[Value]) -> Result<u64, Error> {
    Ok(text(arguments)?.saturating_mul(6))
}

/// Returns an entry for each character of a text, or for each value of a list.
fn entries(arguments: &[Value]) -> Result<u64, Error> {
    let mut entries = 0;
    for argument in arguments {
        let extent = Extent::of(argument)?;
        entries += if argument.as_str().is_some() { extent.text } else { extent.nodes };
    }
    Ok(entries.saturating_mul(ENTRY * 2))
}

fn batch(arguments: &[Value]) -> Result<u64, Error> {
    let filled = if argument(arguments, 2, "fill_with").is_some() { count(argument(arguments, 1, "count")) } else { 0 };
    Ok(entries(&arguments[..1])?.saturating_add(filled.saturating_mul(ENTRY)))
}

fn slice(arguments: &[Value]) -> Result<u64, Error> {
    let slices = count(argument(arguments, 1, "count"));
    Ok(entries(&arguments[..1])?.saturating_add(slices.saturating_mul(ENTRY * 2)))
}

fn indent(arguments: &[Value]) -> Result<u64, Error> {
    let text = text(arguments)?;
    let lines = arguments.first().map_or(0, |value| value.to_string().matches('\n').count()) as u64 + 1;
    Ok(count(argument(arguments, 1, "width")).max(4).saturating_mul(lines).saturating_add(text))
}

fn join(arguments: &[Value]) -> Result<u64, Error> {
    let (value, joiner) = (extent(arguments, 0)?, extent(arguments, 1)?);
    Ok(if arguments.first().is_some_and(|value| value.as_str().is_some()) { value.text } else { value.nodes }
        .saturating_mul(joiner.text)
        .saturating_add(value.text))
}

fn replace(arguments: &[Value]) -> Result<u64, Error> {
    let (value, by) = (extent(arguments, 0)?, extent(arguments, 2)?);
    let [Some(whole), Some(from)] = [0, 1].map(|position| arguments.get(position).and_then(Value::as_str)) else {
        return Ok(value.text.saturating_mul(by.text + 1));
    };
    Ok((whole.matches(from).count() as u64).saturating_mul(by.text).saturating_add(value.text))
}

fn split(arguments: &[Value]) -> Result<u64, Error> {
    let value = arguments.first().and_then(Value::as_str).unwrap_or_default();
    let parts = match arguments.get(1).and_then(Value::as_str) {
        Some(separator) => value.matches(separator).count(),
        None => value.bytes().filter(u8::is_ascii_whitespace).count() + value.chars().filter(|c| !c.is_ascii()).count(),
    };
    Ok((parts as u64 + 2).saturating_mul(ENTRY * 2).saturating_add(text(arguments)?))
}

fn tojson(arguments: &[Value]) -> Result<u64, Error> {
    let value = extent(arguments, 0)?;
    let spaces = count(argument(arguments, 1, "indent")).max(2).saturating_mul(value.levels as u64 + 1);
    Ok(value.nodes.saturating_mul(spaces).saturating_add(value.text.saturating_mul(6)))
}

/// Returns the most bytes that a format can make: every number may be a width, and every placeholder may show
/// everything.
fn format(arguments: &[Value]) -> Result<u64, Error> {
    let form = arguments.first().and_then(Value::as_str).unwrap_or_default();
    let mut widths: u64 = form
        .split(|character: char| !character.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .fold(0, |sum: u64, digits| sum.saturating_add(digits.parse().unwrap_or(u64::MAX)));
    let mut shown: u64 = 0;
    for value in arguments.iter().skip(1) {
        shown = shown.saturating_add(Extent::of(value)?.text);
        if form.contains('*') && value.is_integer() {
            widths = widths.saturating_add(u64::try_from(value.clone()).unwrap_or(u64::MAX));
        }
    }
    let placeholders = form.matches('%').count() as u64 + 1;
    Ok(widths.saturating_add(shown.saturating_mul(placeholders)).saturating_add(form.len() as u64))
}

#[cfg(test)]
mod tests {
    use minijinja::value::Kwargs;

    use super::super::meter::{self, Extent};
    use super::*;

    fn charged(cost: Cost, arguments: &[Value]) -> u64 {
        meter::within(u64::MAX, || cost(arguments)).unwrap()
    }

    fn named(name: &str, value: u64) -> Value {
        Kwargs::from_iter([(name, Value::from(value))]).into()
    }

    fn list(values: &[&str]) -> Value {
        Value::from(values.iter().map(|value| Value::from(*value)).collect::<Vec<_>>())
    }

    fn text_of(value: &Value) -> u64 {
        meter::within(u64::MAX, || Extent::of(value)).unwrap().text
    }

    #[test]
    fn entries_are_charged_for_each_character_or_value() {
        assert_eq!(charged(entries, &["abc".into()]), 3 * 2 * ENTRY);
        assert_eq!(charged(entries, &[list(&["a", "b"])]), 3 * 2 * ENTRY, "the list and its two values");
        assert_eq!(charged(entries, &[list(&["a"]), list(&["b"])]), 4 * 2 * ENTRY);
        assert_eq!(charged(batch, &[list(&["a"]), 10.into()]), 2 * 2 * ENTRY, "nothing is filled");
        assert_eq!(charged(batch, &[list(&["a"]), 10.into(), "x".into()]), 2 * 2 * ENTRY + 10 * ENTRY);
        assert_eq!(charged(slice, &[list(&["a"]), 10.into()]), 2 * 2 * ENTRY + 10 * 2 * ENTRY);
        assert_eq!(charged(slice, &[list(&["a"]), named("count", 10)]), 2 * 2 * ENTRY + 10 * 2 * ENTRY);
    }

    #[test]
    fn texts_are_charged_for_what_is_put_between_and_around_them() {
        assert_eq!(charged(escaped, &["<a>".into()]), 18);
        assert_eq!(charged(indent, &["a\nb".into(), 10.into()]), 2 * 10 + 3);
        assert_eq!(charged(indent, &["a\nb".into()]), 2 * 4 + 3, "the width is four if none is given");
        let joined = list(&["a", "b", "c"]);
        assert_eq!(charged(join, &[joined.clone(), ", ".into()]), 4 * 2 + text_of(&joined));
        assert_eq!(charged(join, &["abc".into(), ", ".into()]), 3 * 2 + 3);
        assert_eq!(charged(replace, &["abab".into(), "a".into(), "xyz".into()]), 2 * 3 + 4);
        assert_eq!(charged(replace, &[12.into(), "a".into(), "xyz".into()]), 40 * (3 + 1), "a number is not searched");
        assert_eq!(charged(split, &["a,b,c".into(), ",".into()]), (2 + 2) * 2 * ENTRY + 5);
        assert_eq!(charged(split, &["a b ä".into()]), (2 + 1 + 2) * 2 * ENTRY + 6, "white space, and what may be such");
        assert_eq!(charged(tojson, &[joined.clone(), 3.into()]), 4 * 3 * (2 + 1) + 6 * text_of(&joined));
        assert_eq!(charged(tojson, std::slice::from_ref(&joined)), 4 * 2 * (2 + 1) + 6 * text_of(&joined));
    }

    #[test]
    fn a_format_is_charged_for_widths_and_for_everything_in_each_placeholder() {
        assert_eq!(charged(format, &["%s".into(), "abc".into()]), 3 * 2 + 2);
        assert_eq!(charged(format, &["%10s %5d".into(), "abc".into(), 7.into()]), 15 + (3 + 40) * 3 + 8);
        assert_eq!(charged(format, &["%*d".into(), 100.into(), 7.into()]), 107 + (40 + 40) * 2 + 3);
        assert_eq!(charged(format, &["%d".into(), 100.into()]), 40 * 2 + 2, "without a star no value is a width");
    }
}
