//! Bytes of others: reading them never panics, and what is read is written again as it was.

use baton_utp::card::Card;
use baton_utp::exchange::{CardPutReply, DeadLetter};
use baton_utp::resume::Received;
use baton_utp::subject::{Subject, TargetSubject};
use serde_json::{Map, Value, json};

use crate::payloads::messages;
use crate::support::{bytes, result_card};

/// A generator of numbers that are the same in each execution (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("a small number")
    }
}

/// Gives `bytes` to every reader.
fn read_everywhere(bytes: &[u8]) {
    for (name, _, read, _) in messages() {
        if let Ok(kept) = read(bytes) {
            let again = read(kept.to_string().as_bytes()).unwrap_or_else(|error| panic!("{name}: {error} in {kept}"));
            assert_eq!(again, kept, "{name}");
        }
    }
    let _ = CardPutReply::read(bytes);
    let _ = Received::read(bytes);
    let _ = DeadLetter::of("subject", "code", "reason", bytes);
    let text = String::from_utf8_lossy(bytes);
    if let Ok(subject) = Subject::parse(&text) {
        assert_eq!(subject.to_string(), text);
    }
    let _ = TargetSubject::parse(&text);
}

#[test]
fn random_bytes_never_panic() {
    let mut numbers = Numbers(0x5eed_0004);
    for _ in 0..4_000 {
        let length = numbers.below(200);
        let bytes: Vec<u8> = (0..length).map(|_| numbers.next() as u8).collect();
        read_everywhere(&bytes);
    }
}

#[test]
fn damaged_messages_never_panic() {
    let mut numbers = Numbers(0x0bad_5eed);
    for (_, message, ..) in messages() {
        let whole = bytes(&message);
        for end in 0..whole.len() {
            read_everywhere(&whole[..end]);
        }
        for _ in 0..400 {
            let mut damaged = whole.clone();
            for _ in 0..=numbers.below(3) {
                let at = numbers.below(damaged.len());
                match numbers.below(3) {
                    0 => damaged[at] = numbers.next() as u8,
                    1 => _ = damaged.remove(at),
                    _ => damaged.insert(at, b"{}[]\",:\\0eu-"[numbers.below(12)]),
                }
            }
            read_everywhere(&damaged);
        }
    }
}

/// Values of every type, to take the place of a field.
fn values() -> Vec<Value> {
    let deep = (0..126).fold(json!(0), |inner, _| json!([inner]));
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}"),
        json!("x".repeat(513)),
        json!("é".repeat(512)),
        json!([]),
        json!({}),
        deep,
    ]
}

/// Returns every object within `value`, by its pointer.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    if let Value::Object(keys) = value {
        found.push(at.to_owned());
        for (key, inner) in keys {
            objects(inner, &format!("{at}/{key}"), found);
        }
    }
}

#[test]
fn every_single_field_mutation_is_refused_or_read_without_loss() {
    let (mut refused, mut read_count) = (0, 0);
    for (name, message, read, _) in messages() {
        let mut places = Vec::new();
        objects(&message, "", &mut places);
        for place in places {
            let keys: Vec<String> =
                message.pointer(&place).and_then(Value::as_object).map(Map::keys).into_iter().flatten().cloned().collect();
            for key in keys {
                let mut mutations: Vec<Option<Value>> = values().into_iter().map(Some).collect();
                mutations.push(None);
                for mutation in mutations {
                    let mut mutated = message.clone();
                    let object = mutated.pointer_mut(&place).and_then(Value::as_object_mut).expect("an object");
                    match mutation {
                        Some(value) => _ = object.insert(key.clone(), value),
                        None => _ = object.shift_remove(&key),
                    }
                    match read(&bytes(&mutated)) {
                        Ok(kept) => {
                            read_count += 1;
                            assert_eq!(read(&bytes(&kept)).expect(name), kept, "{name}{place}/{key}");
                        }
                        Err(error) => {
                            refused += 1;
                            let shown = error.to_string();
                            assert!(shown.contains(&key) || shown.contains("nested"), "{name}{place}/{key}: {shown}");
                        }
                    }
                }
            }
        }
    }
    assert!(refused > 400 && read_count > 50, "{refused} refused, {read_count} read");
}

#[test]
fn numbers_of_a_result_keep_all_digits() {
    let digits = "123456789012345678901234567890.10";
    let text = result_card().to_string().replace("{\"hits\":2}", &format!("{{\"hits\":{digits}}}"));
    let card = Card::read_result(text.as_bytes()).expect("a card");
    assert_eq!(card.result().expect("a result").result.text(), format!("{{\"hits\":{digits}}}"));
    assert!(serde_json::to_string(&card).expect("it serialises").contains(digits));
}

#[test]
fn a_dead_letter_quotes_a_bounded_part() {
    let letter = DeadLetter::of("s", "c", "r", &vec![0xff; 100_000]);
    assert_eq!(letter.message.chars().count(), 4_096);
}
