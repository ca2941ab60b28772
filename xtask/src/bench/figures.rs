//! Measured figures, and their medians.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::targets::{Case, Subject, Target, Yardstick};

/// The figures of one measurement by name.
type Figures = BTreeMap<String, f64>;

/// The measurements of all rounds.
#[derive(Default)]
pub(super) struct Measured(BTreeMap<(Case, Subject), Vec<Figures>>);

impl Measured {
    /// Adds a measurement: its numbers count.
    pub(super) fn add(&mut self, case: &Case, subject: Subject, figures: &Map<String, Value>) {
        let mut numbers: Figures = figures.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect();
        if let (Some(tools), Some(cpu_s)) = (numbers.get("tools"), numbers.get("cpu_s")) {
            let tools_cpu_s = tools / cpu_s;
            numbers.entry("tools_cpu_s".to_owned()).or_insert(tools_cpu_s);
        }
        self.0.entry((case.clone(), subject)).or_default().push(numbers);
    }

    fn rounds(&self, case: &Case, subject: Subject) -> &[Figures] {
        self.0.get(&(case.clone(), subject)).map_or(&[], Vec::as_slice)
    }

    /// Returns the median of a figure; not a number if it was never measured.
    pub(super) fn median(&self, case: &Case, subject: Subject, figure: &str) -> f64 {
        median(self.rounds(case, subject).iter().filter_map(|figures| figures.get(figure).copied()))
    }

    /// Returns the value that is compared with the factor of `target`'s bound: the engine's figure, or its ratio to
    /// the yardstick in the same round.
    pub(super) fn compared(&self, target: &Target) -> f64 {
        let engine = self.rounds(&target.case, Subject::Engine);
        let figure = |figures: &Figures, name: &str| figures.get(name).copied().unwrap_or(f64::NAN);
        match &target.bound.of {
            Yardstick::One => self.median(&target.case, Subject::Engine, &target.figure),
            Yardstick::Figure(other) => {
                median(engine.iter().map(|figures| figure(figures, &target.figure) / figure(figures, other)))
            }
            Yardstick::Floor(floor) => {
                let floor = self.rounds(&target.case, Subject::Floor(*floor));
                let rounds = engine.iter().zip(floor);
                median(rounds.map(|(engine, floor)| figure(engine, &target.figure) / figure(floor, &target.figure)))
            }
        }
    }
}

/// Returns the middle one of `values`, or the mean of the two in the middle.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these numbers are exact")]
mod tests {
    use serde_json::json;

    use super::super::targets::{Bound, Floor, Relation};
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median([]).is_nan());
    }

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        let case = Case { workload: "wide".into(), n: 10, conc: 1, store: "memory".into() };
        let mut measured = Measured::default();
        // The machine was ten times as fast in the second round, and the engine half as fast as the floor in each.
        for speed in [1.0, 10.0, 2.0] {
            let figures =
                |tools_s: f64| json!({"tools_s": tools_s, "first": 2.0, "store": "memory"}).as_object().unwrap().clone();
            measured.add(&case, Subject::Engine, &figures(50.0 * speed));
            measured.add(&case, Subject::Floor(Floor::Memory), &figures(100.0 * speed));
        }
        let compared = |of| {
            let bound = Bound { factor: 0.5, of };
            let target =
                Target { number: "1".into(), case: case.clone(), figure: "tools_s".into(), relation: Relation::AtLeast, bound };
            measured.compared(&target)
        };
        assert_eq!(compared(Yardstick::Floor(Floor::Memory)), 0.5);
        assert_eq!(compared(Yardstick::One), 100.0);
        assert_eq!(compared(Yardstick::Figure("first".into())), 50.0);
        assert!(compared(Yardstick::Floor(Floor::Log)).is_nan(), "a floor that was not measured");
        assert!(compared(Yardstick::Figure("absent".into())).is_nan());
    }
}
