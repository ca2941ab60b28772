//! The checker holds what is whole, finds what is broken, and stops at nothing.
//!
//! Timelines of simulated runs are broken in every place: an entry is left out, repeated, moved forward, or changed.
//! Numbers are corrected afterwards, so that only the meaning can reveal a change.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_proof::random::Random;
use baton_proof::{Invariant, simulation, verify};
use baton_types::config::Configs;
use baton_types::entry::{Entry, Recorded};
use serde_json::Value;

const SEEDS: std::ops::Range<u64> = 100..124;

fn timelines() -> impl Iterator<Item = (Arc<Configs>, Vec<Recorded>)> {
    SEEDS.map(simulation::timeline).filter(|(_, entries)| (10..400).contains(&entries.len()))
}

/// Numbers the entries again and puts their moments in order.
fn renumber(entries: &mut [Recorded]) {
    let mut moments: Vec<_> = entries.iter().map(|recorded| recorded.at).collect();
    moments.sort();
    for ((recorded, seq), at) in entries.iter_mut().zip(1..).zip(moments) {
        (recorded.seq, recorded.at) = (seq, at);
    }
}

#[test]
fn a_timeline_of_the_machine_holds() {
    let mut answers = 0;
    for (configs, entries) in timelines() {
        let report = verify(&configs, &entries);
        assert_eq!(report.findings, []);
        assert_eq!(report.entries, entries.len() as u64);
        assert!(report.run.is_some());
        answers += report.answers;
    }
    assert!(answers > 100, "requests were compared: {answers}");
}

/// Numbers of changes and of found changes, by the kind of change.
type Counts = BTreeMap<&'static str, (u32, u32)>;

fn judge(counts: &mut Counts, kind: &'static str, configs: &Arc<Configs>, mut changed: Vec<Recorded>) -> bool {
    renumber(&mut changed);
    let found = !verify(configs, &changed).findings.is_empty();
    let count = counts.entry(kind).or_default();
    count.0 += 1;
    count.1 += u32::from(found);
    found
}

/// Whether leaving out, repeating or moving `entry` changes the meaning: actions of people and processes may come at
/// any moment and any number of times.
fn has_meaning(entry: &Entry) -> bool {
    !matches!(entry, Entry::Control(_) | Entry::Output(_))
}

#[test]
fn missing_repeated_and_early_entries_are_found() {
    let mut counts = Counts::new();
    let mut missed: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for (configs, entries) in timelines() {
        for place in 1..entries.len() {
            let entry = &entries[place].entry;
            if !has_meaning(entry) {
                continue;
            }
            let mut left_out = entries.clone();
            left_out.remove(place);
            let mut twice = entries.clone();
            twice.insert(place, entries[place].clone());
            let mut early = entries.clone();
            early.swap(place - 1, place);
            for (kind, changed) in [("left out", left_out), ("twice", twice), ("too early", early)] {
                if !judge(&mut counts, kind, &configs, changed) {
                    *missed.entry((kind, entry.name())).or_default() += 1;
                }
            }
        }
    }
    println!("{counts:?}\nmissed: {missed:?}");
    // Neighbours that could as well have come in the other order are not wrong; so fewer of those are found.
    for (kind, share) in [("left out", 0.96), ("twice", 1.0), ("too early", 0.6)] {
        let (made, found) = counts[kind];
        assert!(f64::from(found) >= f64::from(made) * share, "{kind}: {found} of {made} were found; missed: {missed:?}");
    }
}

/// Changes one leaf of `value`, chosen by chance: a number by one, a truth to its opposite, a text by a letter.
fn change(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let place = random.below(fields.len());
            let field = fields.values_mut().nth(place).expect("the place is one of them");
            change(field, random);
        }
        Value::Array(items) if !items.is_empty() => {
            let place = random.below(items.len() + 1);
            if place == items.len() { drop(items.remove(0)) } else { change(&mut items[place], random) }
        }
        Value::Number(number) => *value = Value::from(number.as_u64().unwrap_or(0).wrapping_add(1)),
        Value::Bool(truth) => *truth = !*truth,
        Value::String(text) => text.push('0'),
        _ => *value = Value::from(u64::MAX),
    }
}

#[test]
fn differing_entries_are_found() {
    let mut counts = Counts::new();
    let mut random = Random::seeded(7);
    for (configs, entries) in timelines() {
        for place in 0..entries.len() {
            let mut value = serde_json::to_value(&entries[place].entry).expect("an entry serialises");
            let inner = value.as_object_mut().and_then(|object| object.values_mut().next()).expect("an entry has a name");
            change(inner, &mut random);
            // What no longer reads as an entry never reaches a checker.
            let Ok(entry) = serde_json::from_value::<Entry>(value) else { continue };
            let mut changed = entries.clone();
            changed[place].entry = entry;
            judge(&mut counts, "changed", &configs, changed);
        }
    }
    println!("{counts:?}");
    // The rest are texts that are not repeated and that no later request shows, such as the reason of a cancellation.
    let (made, found) = counts["changed"];
    assert!(f64::from(found) >= f64::from(made) * 0.75, "{found} of {made} changes were found");
}

#[test]
fn numbers_with_gaps_and_moments_that_step_back_are_found() {
    let (configs, entries) = timelines().next().expect("there is a timeline");
    let mut gap = entries.clone();
    gap.remove(entries.len() / 2);
    assert!(verify(&configs, &gap).findings.iter().any(|finding| finding.invariant == Invariant::TimelineHasNoGaps));
    let mut back = entries.clone();
    back[3].at = baton_types::time::Timestamp::from_micros(1);
    assert!(verify(&configs, &back).findings.iter().any(|finding| finding.invariant == Invariant::TimelineHasNoGaps));
}

#[test]
fn a_checker_stops_at_nothing() {
    let mut random = Random::seeded(11);
    for (configs, entries) in timelines() {
        for _ in 0..20 {
            let mut shuffled = entries.clone();
            for _ in 0..random.below(entries.len()) {
                let (one, other) = (random.below(entries.len()), random.below(entries.len()));
                shuffled.swap(one, other);
            }
            shuffled.truncate(1 + random.below(entries.len()));
            if random.once_in(2) {
                renumber(&mut shuffled);
            }
            let report = verify(&configs, &shuffled);
            assert!(report.entries > 0);
        }
        // The entries of one run are nothing for the configs of another.
        let (others, _) = simulation::timeline(random.bits() % 1_000);
        let _ = verify(&others, &entries);
        assert!(verify(&configs, &[]).findings.is_empty() || !entries.is_empty());
    }
}
