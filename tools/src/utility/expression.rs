//! Arithmetic: one pass over a text, without any tree and without evaluating anything else.
//!
//! Powers bind tightest and from the right (`2^3^2` is 512), then signs (`-2^2` is −4), then `*` `/` `%`, then `+` `-`.
//! `%` is the remainder, with the sign of the left side. Every character counts: what is not understood is an error.

use std::f64::consts::{E, PI};

/// The longest text that is read.
const MAX_BYTES: usize = 10_000;
/// Deepest nesting of parentheses, signs and powers.
const MAX_DEPTH: u32 = 200;
/// The names of the functions, for messages.
const FUNCTIONS: &str = "abs, acos, asin, atan, atan2, ceil, cos, exp, floor, log, max, min, pow, random, round, sin, sqrt, tan";

/// Evaluates `text`; `random` gives a number from 0 to 1. The error is a sentence.
pub(super) fn evaluate(text: &str, random: &mut dyn FnMut() -> f64) -> Result<f64, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("the expression has {} bytes; at most {MAX_BYTES} are read", text.len()));
    }
    let mut reader = Reader { text, at: 0, depth: 0, random };
    if reader.peek().is_none() {
        return Err("the expression is empty".to_owned());
    }
    let value = reader.sum()?;
    if reader.peek().is_some() {
        return Err(reader.unexpected("an operator or the end"));
    }
    if value.is_finite() { Ok(value) } else { Err("Expression did not evaluate to a valid number".to_owned()) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    random: &'a mut dyn FnMut() -> f64,
}

impl Reader<'_> {
    /// Returns the next character that is no white space, which stays unread.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    /// Reads `expected` if it comes next.
    fn take(&mut self, expected: &str) -> bool {
        self.peek();
        let found = self.text[self.at..].starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found
    }

    fn unexpected(&mut self, wanted: &str) -> String {
        let place = |at: usize, text: &str| text[..at].chars().count() + 1;
        match self.peek() {
            Some(found) => {
                format!("unexpected {found:?} at character {}; expected {wanted}", place(self.at, self.text))
            }
            None => format!("the expression ends; expected {wanted}"),
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("the expression nests deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value += self.product()?;
            } else if self.take("-") {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.signed()?;
        loop {
            if self.take("*") {
                value *= self.signed()?;
            } else if self.take("/") {
                value /= self.signed()?;
            } else if self.take("%") {
                value %= self.signed()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn signed(&mut self) -> Result<f64, String> {
        if self.take("-") {
            self.deeper(Self::signed).map(|value| -value)
        } else if self.take("+") {
            self.deeper(Self::signed)
        } else {
            self.power()
        }
    }

    fn power(&mut self) -> Result<f64, String> {
        let base = self.operand()?;
        if self.take("^") || self.take("**") { self.deeper(Self::signed).map(|exponent| base.powf(exponent)) } else { Ok(base) }
    }

    fn operand(&mut self) -> Result<f64, String> {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let value = self.deeper(Self::sum)?;
                if self.take(")") { Ok(value) } else { Err(self.unexpected("a closing parenthesis")) }
            }
            Some(first) if first.is_ascii_digit() || first == '.' => self.number(),
            Some(first) if first.is_ascii_alphabetic() => self.named(),
            _ => Err(self.unexpected("a number")),
        }
    }

    /// Returns a number: digits, which `_` may group, a fraction, an exponent.
    fn number(&mut self) -> Result<f64, String> {
        let rest = &self.text[self.at..];
        let mut length = 0;
        let bytes = rest.as_bytes();
        while let Some(byte) = bytes.get(length) {
            let exponent = matches!(byte, b'e' | b'E');
            let sign = matches!(byte, b'+' | b'-') && matches!(bytes[length - 1], b'e' | b'E');
            let grouping = *byte == b'_' && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
            if !(byte.is_ascii_digit() || *byte == b'.' || exponent || sign || grouping) {
                break;
            }
            length += 1;
        }
        let written = &rest[..length];
        let value = written.replace('_', "").parse().map_err(|_| format!("{written:?} is not a number"))?;
        self.at += length;
        Ok(value)
    }

    /// Returns a constant, or a function with its arguments.
    fn named(&mut self) -> Result<f64, String> {
        let rest = &self.text[self.at..];
        let word = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.');
        let written = rest.split(|character| !word(character)).next().unwrap_or_default();
        self.at += written.len();
        let name = written.strip_prefix("Math.").unwrap_or(written);
        match name {
            "PI" => return Ok(PI),
            "E" => return Ok(E),
            _ => {}
        }
        if !FUNCTIONS.split(", ").any(|known| known == name) {
            return Err(format!("unknown name {written:?}; known are PI, E and the functions {FUNCTIONS}"));
        }
        if !self.take("(") {
            return Err(self.unexpected(&format!("the opening parenthesis of {name}")));
        }
        let arguments = self.deeper(Self::arguments)?;
        self.call(name, &arguments)
    }

    fn arguments(&mut self) -> Result<Vec<f64>, String> {
        let mut arguments = Vec::new();
        if self.take(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.sum()?);
            if self.take(")") {
                return Ok(arguments);
            }
            if !self.take(",") {
                return Err(self.unexpected("a comma or a closing parenthesis"));
            }
        }
    }

    fn call(&mut self, name: &str, arguments: &[f64]) -> Result<f64, String> {
        let value = match (name, arguments) {
            ("abs", [x]) => x.abs(),
            ("acos", [x]) => x.acos(),
            ("asin", [x]) => x.asin(),
            ("atan", [x]) => x.atan(),
            ("atan2", [y, x]) => y.atan2(*x),
            ("ceil", [x]) => x.ceil(),
            ("cos", [x]) => x.cos(),
            ("exp", [x]) => x.exp(),
            ("floor", [x]) => x.floor(),
            ("log", [x]) => x.ln(),
            ("max", [first, rest @ ..]) => {
                rest.iter().fold(*first, |most, value| if *value > most || value.is_nan() { *value } else { most })
            }
            ("min", [first, rest @ ..]) => {
                rest.iter().fold(*first, |least, value| if *value < least || value.is_nan() { *value } else { least })
            }
            ("pow", [base, exponent]) => base.powf(*exponent),
            ("random", []) => (self.random)(),
            ("round", [x]) => round(*x),
            ("sin", [x]) => x.sin(),
            ("sqrt", [x]) => x.sqrt(),
            ("tan", [x]) => x.tan(),
            _ => return Err(format!("{name} does not take {} arguments", arguments.len())),
        };
        Ok(value)
    }
}

/// Rounds to the nearest whole number, halves upwards: `round(-2.5)` is −2, as in the seed's calculator.
fn round(value: f64) -> f64 {
    let floor = value.floor();
    if value - floor >= 0.5 { floor + 1.0 } else { floor }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> f64 {
        evaluate(text, &mut || 0.25).unwrap_or_else(|message| panic!("{text}: {message}"))
    }

    fn refusal(text: &str) -> String {
        evaluate(text, &mut || 0.25).expect_err(text)
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "these results are exact")]
    fn arithmetic_follows_the_usual_rules() {
        let cases = [
            ("2^3", 8.0),
            ("2**3", 8.0),
            ("2^3^2", 512.0),
            ("7 % 3", 1.0),
            ("-7 % 3", -1.0),
            ("-2^2", -4.0),
            ("(-2)^2", 4.0),
            ("2^-1", 0.5),
            ("1+2*3", 7.0),
            ("(1+2)*3", 9.0),
            ("10/4/5", 0.5),
            ("10-4-3", 3.0),
            ("--2", 2.0),
            ("-(-3)", 3.0),
            ("+4", 4.0),
            ("2*-3", -6.0),
            ("1e3", 1_000.0),
            ("1.5E-1", 0.15),
            (".5+5.", 5.5),
            ("1_000*2", 2_000.0),
            (" 1 +\n2\t", 3.0),
            ("((((5))))", 5.0),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn the_eighteen_functions_and_two_constants_are_there() {
        let cases = [
            ("abs(-2)", 2.0),
            ("acos(1)", 0.0),
            ("asin(0)", 0.0),
            ("atan(0)", 0.0),
            ("atan2(1, 1)", PI / 4.0),
            ("ceil(1.2)", 2.0),
            ("cos(0)", 1.0),
            ("exp(1)", E),
            ("floor(-1.2)", -2.0),
            ("log(E)", 1.0),
            ("max(1, 3, 2)", 3.0),
            ("min(4)", 4.0),
            ("pow(2, 10)", 1_024.0),
            ("random()", 0.25),
            ("round(2.5)", 3.0),
            ("round(-2.5)", -2.0),
            ("round(0.49999999999999994)", 0.0),
            ("sin(0)", 0.0),
            ("sqrt(16)", 4.0),
            ("tan(0)", 0.0),
            ("Math.PI", PI),
            ("2*E", 2.0 * E),
            ("Math.max(1, Math.sqrt(9))", 3.0),
        ];
        for (text, expected) in cases {
            assert!((value(text) - expected).abs() < 1e-12, "{text}");
        }
    }

    #[test]
    fn malformed_text_is_an_error_and_is_never_dropped() {
        let long = "1+".repeat(6_000);
        for text in [
            "",
            " ",
            "2 3",
            "2^",
            "(1",
            "1)",
            "1,000",
            "10%",
            "2x",
            "0x10",
            "1e",
            "1..2",
            "1e5.2",
            "$5",
            "5 €",
            "2³",
            "²",
            "a",
            "pi",
            "max()",
            "sqrt(1,2)",
            "sqrt 4",
            "abs(",
            "abs(1",
            "random(1)",
            "constructor",
            "Math",
            "Math.constructor(1)",
            "this",
            "process.exit()",
            "globalThis",
            "__proto__",
            "1;2",
            "1=1",
            "!1",
            "1&&2",
            "\"a\"",
            "`x`",
            "[1]",
            "{}",
            "x=>x",
            "1 // 2 //",
            "/* */ 1",
            "\u{0}1",
            "1\u{202E}+2",
            &long,
        ] {
            refusal(text);
        }
        assert_eq!(refusal("2 $ 3"), "unexpected '$' at character 3; expected an operator or the end");
        assert_eq!(refusal("2 +"), "the expression ends; expected a number");
        assert!(refusal("foo(1)").starts_with("unknown name \"foo\"; known are PI, E"));
    }

    #[test]
    fn no_number_is_no_result() {
        for text in ["1/0", "-1/0", "0/0", "sqrt(-1)", "log(0)", "9^9^9^9", "1e999", "max(1, 0/0)", "min(0/0, 1)", "5 % 0"] {
            assert_eq!(refusal(text), "Expression did not evaluate to a valid number", "{text}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        for text in ["(".repeat(10_000), "-".repeat(10_000), "2^".repeat(5_000), "abs(".repeat(2_500), "+".repeat(9_999) + "1"] {
            assert!(refusal(&text).contains("deeper than 200"), "{}", refusal(&text));
        }
        assert!(refusal(&"1".repeat(10_001)).contains("at most 10000"));
        assert!(value(&("(".repeat(200) + "1" + &")".repeat(200))) > 0.0);
        assert!(value(&("1+".repeat(4_999) + "1")) > 4_999.0);
    }
}
