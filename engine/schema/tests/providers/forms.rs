//! Sets of values, independent of any schema: a form can be spelled as a schema in many ways, and generates its own
//! values, both as a tool has them and as a strict dialect has them.

use baton_proof::random::Random;
use serde_json::{Map, Value, json};

/// A set of values.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    Null,
    Bool,
    Text,
    /// A whole number of 0 to 9.
    Whole,
    Number,
    Words(Vec<Value>),
    List(Box<Form>),
    Object(Vec<Field>),
    Choice(Vec<Form>),
    /// The form of this index in the table.
    Named(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) required: bool,
    pub(crate) form: Form,
}

/// A form with the forms that it names.
#[derive(Clone, Debug)]
pub(crate) struct Forms {
    pub(crate) root: Form,
    pub(crate) named: Vec<Form>,
}

/// Use of optional properties that may be null as well.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum NullableOptional {
    Never,
    Sometimes,
}

/// Deepest nesting of random values.
const DEPTH: usize = 4;

impl Form {
    /// Whether null is one of the values. Named forms are objects.
    fn takes_null(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Words(words) => words.contains(&Value::Null),
            Self::Choice(members) => members.iter().any(Self::takes_null),
            _ => false,
        }
    }
}

impl Forms {
    /// Whether a property may be null and may be omitted.
    pub(crate) fn has_nullable_optional(&self) -> bool {
        fn has(form: &Form) -> bool {
            match form {
                Form::Object(fields) => {
                    fields.iter().any(|field| (!field.required && field.form.takes_null()) || has(&field.form))
                }
                Form::List(inner) => has(inner),
                Form::Choice(members) => members.iter().any(has),
                _ => false,
            }
        }
        has(&self.root) || self.reached().into_iter().any(|index| has(&self.named[index]))
    }

    /// Returns the named forms that the root leads to.
    fn reached(&self) -> Vec<usize> {
        fn collect(form: &Form, found: &mut Vec<usize>) {
            match form {
                Form::Object(fields) => fields.iter().for_each(|field| collect(&field.form, found)),
                Form::List(inner) => collect(inner, found),
                Form::Choice(members) => members.iter().for_each(|member| collect(member, found)),
                Form::Named(index) if !found.contains(index) => found.push(*index),
                _ => {}
            }
        }
        let mut found = Vec::new();
        collect(&self.root, &mut found);
        let mut next = 0;
        while let Some(index) = found.get(next).copied() {
            collect(&self.named[index], &mut found);
            next += 1;
        }
        found
    }
    /// Returns a value: as the tool's own schema has it, and as a schema has it that requires every property.
    pub(crate) fn value(&self, random: &mut Random) -> (Value, Value) {
        self.of(&self.root, random, 0)
    }

    fn of(&self, form: &Form, random: &mut Random, depth: usize) -> (Value, Value) {
        let both = |value: Value| (value.clone(), value);
        match form {
            Form::Null => both(Value::Null),
            Form::Bool => both(Value::from(random.once_in(2))),
            Form::Text => both(Value::from(*random.pick(&["", "a", "two words", "é✓", "null", "2026-01-31"]))),
            Form::Whole => both(Value::from(random.below(10))),
            Form::Number => {
                both(random.pick(&[json!(0), json!(-1.5), json!(3), json!(1e9), json!(12_345_678_901_234_u64)]).clone())
            }
            Form::Words(words) => both(random.pick(words).clone()),
            Form::List(inner) => {
                let length = if depth < DEPTH { random.below(3) } else { 0 };
                let (own, strict): (Vec<Value>, Vec<Value>) = (0..length).map(|_| self.of(inner, random, depth + 1)).unzip();
                (Value::Array(own), Value::Array(strict))
            }
            Form::Object(fields) => {
                let (mut own, mut strict) = (Map::new(), Map::new());
                for field in fields {
                    let is_absent = !field.required && (depth >= DEPTH || random.once_in(2));
                    if is_absent {
                        strict.insert(field.name.clone(), Value::Null);
                    } else {
                        let (value, its) = self.of(&field.form, random, depth + 1);
                        own.insert(field.name.clone(), value);
                        strict.insert(field.name.clone(), its);
                    }
                }
                (Value::Object(own), Value::Object(strict))
            }
            Form::Choice(members) => {
                let is_flat = |member: &&Form| !matches!(member, Form::Object(_) | Form::List(_) | Form::Named(_));
                let member = if depth < DEPTH { None } else { members.iter().find(is_flat) };
                self.of(member.unwrap_or_else(|| random.pick(members)), random, depth)
            }
            Form::Named(index) => self.of(&self.named[*index], random, depth),
        }
    }

    /// Returns a schema of this form, spelled in one of many ways.
    pub(crate) fn schema(&self, random: &mut Random) -> Value {
        let mut schema = self.spelled(&self.root, random);
        schema["type"] = json!("object");
        if !self.named.is_empty() {
            let definitions =
                self.named.iter().enumerate().map(|(index, form)| (format!("d{index}"), self.spelled(form, random)));
            schema["$defs"] = Value::Object(definitions.collect());
        }
        schema
    }

    fn spelled(&self, form: &Form, random: &mut Random) -> Value {
        let mut schema = match form {
            Form::Null => json!({"type": "null"}),
            Form::Bool => json!({"type": "boolean"}),
            Form::Text => random
                .pick(&[
                    json!({"type": "string"}),
                    json!({"type": "string", "maxLength": 40}),
                    json!({"type": "string", "minLength": 0, "default": "a"}),
                    json!({"type": "string", "pattern": "^[^#]*$"}),
                    json!({"allOf": [{"type": "string"}, {"maxLength": 99}]}),
                ])
                .clone(),
            Form::Whole => random
                .pick(&[
                    json!({"type": "integer", "minimum": 0, "maximum": 9}),
                    json!({"type": "integer", "exclusiveMinimum": -1, "allOf": [{"maximum": 9}, {"maximum": 12}]}),
                    json!({"allOf": [{"type": "number", "minimum": 0}, {"type": "integer", "exclusiveMaximum": 10}]}),
                ])
                .clone(),
            Form::Number => json!({"type": "number"}),
            Form::Words(words) => match words.as_slice() {
                [only] if random.once_in(2) => json!({"const": only}),
                words => json!({"enum": words}),
            },
            Form::List(inner) => {
                let items = self.spelled(inner, random);
                if random.once_in(3) {
                    json!({"type": "array", "items": items, "maxItems": 5})
                } else {
                    json!({"type": "array", "items": items})
                }
            }
            Form::Object(fields) => self.object(fields, random),
            Form::Choice(members) => self.choice(members, random),
            Form::Named(index) => return json!({"$ref": format!("#/$defs/d{index}")}),
        };
        if random.once_in(3) {
            schema["description"] = json!("What it is for");
        }
        schema
    }

    fn choice(&self, members: &[Form], random: &mut Random) -> Value {
        if let [Form::Text, Form::Null] = members
            && random.once_in(2)
        {
            return json!({"type": ["string", "null"], "maxLength": 30});
        }
        let members: Vec<Value> = members.iter().map(|member| self.spelled(member, random)).collect();
        json!({"anyOf": members})
    }

    fn object(&self, fields: &[Field], random: &mut Random) -> Value {
        let all: Vec<(String, Value)> =
            fields.iter().map(|field| (field.name.clone(), self.spelled(&field.form, random))).collect();
        let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
        if all.len() > 1 && random.once_in(4) {
            // In two halves; only together they name all keys.
            let (one, other) = all.split_at(all.len() / 2);
            let half =
                |half: &[(String, Value)]| json!({"type": "object", "properties": half.iter().cloned().collect::<Map<_, _>>()});
            return json!({"allOf": [half(one), half(other)], "required": required, "unevaluatedProperties": false});
        }
        let mut schema = json!({"type": "object", "properties": all.into_iter().collect::<Map<_, _>>()});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if random.once_in(2) || schema["properties"] == json!({}) {
            schema["additionalProperties"] = json!(false);
        }
        schema
    }
}

/// Forms by chance; some name themselves.
pub(crate) fn random_forms(random: &mut Random, nullable: NullableOptional) -> Forms {
    let named = random.below(3);
    let mut forms = vec![object(random, 0, named, &[])];
    forms.extend((0..named).map(|index| object(random, 1, named, &[word(&format!("d{index}"))])));
    if nullable == NullableOptional::Never {
        forms.iter_mut().for_each(require_nullable);
    }
    Forms { root: forms.remove(0), named: forms }
}

/// Makes every property required that may be null.
fn require_nullable(form: &mut Form) {
    match form {
        Form::Object(fields) => {
            for field in fields {
                field.required |= field.form.takes_null();
                require_nullable(&mut field.form);
            }
        }
        Form::List(inner) => require_nullable(inner),
        Form::Choice(members) => members.iter_mut().for_each(require_nullable),
        _ => {}
    }
}

fn word(kind: &str) -> Field {
    Field { name: "kind".to_owned(), required: true, form: Form::Words(vec![json!(kind)]) }
}

fn object(random: &mut Random, depth: usize, named: usize, first: &[Field]) -> Form {
    let fields = (0..=random.below(4)).map(|index| {
        let required = random.once_in(2);
        let form = form(random, depth + 1, named);
        // A required reference might never come to an end.
        let required = required && !matches!(form, Form::Named(_));
        Field { name: format!("p{index}"), required, form }
    });
    let mut fields: Vec<Field> = fields.collect();
    // The constant that distinguishes alternatives may be at any position.
    let at = random.below(fields.len() + 1);
    for field in first {
        fields.insert(at, field.clone());
    }
    Form::Object(fields)
}

fn form(random: &mut Random, depth: usize, named: usize) -> Form {
    let flat = random.below(if depth > 2 { 6 } else { 11 });
    match flat {
        0 => Form::Bool,
        1 | 2 => Form::Text,
        3 => Form::Whole,
        4 => Form::Number,
        5 => match random.below(4) {
            0 => Form::Words(vec![json!("x"), Value::Null]),
            1 => Form::Words(vec![json!(1), json!("one"), json!(true)]),
            2 => Form::Words(vec![json!("only")]),
            _ => Form::Words(vec![json!("a"), json!("b")]),
        },
        6 => Form::List(Box::new(form(random, depth + 1, named))),
        7 => object(random, depth, named, &[]),
        8 if named > 0 => Form::Named(random.below(named)),
        _ => choice(random, depth, named),
    }
}

fn choice(random: &mut Random, depth: usize, named: usize) -> Form {
    match random.below(5) {
        0 => Form::Choice(vec![Form::Text, Form::Null]),
        1 => Form::Choice(vec![Form::Bool, Form::Whole, Form::List(Box::new(Form::Text))]),
        2 => {
            Form::Choice(vec![object(random, depth + 1, named, &[word("one")]), object(random, depth + 1, named, &[word("two")])])
        }
        3 => Form::Choice(vec![
            Form::List(Box::new(object(random, depth + 1, named, &[word("left")]))),
            Form::List(Box::new(object(random, depth + 1, named, &[word("right")]))),
            Form::Null,
        ]),
        _ => {
            let own = |name: &str| Field { name: name.to_owned(), required: true, form: Form::Text };
            Form::Choice(vec![
                object(random, depth + 1, named, &[own("url")]),
                object(random, depth + 1, named, &[own("file")]),
                Form::Text,
            ])
        }
    }
}
