//! Tables for people: a row per target, on the terminal and in BENCHMARKS.md.

use std::fmt;

use anyhow::Context;

use super::figures::Measured;
use super::targets::{Bound, Case, Relation, Subject, Target, Yardstick};

/// The lines of BENCHMARKS.md around the results.
const BEGIN: &str = "<!-- results: written by `cargo xtask bench --write`; do not edit -->";
const END: &str = "<!-- end of the results -->";

const HEADINGS: [&str; 9] = ["#", "case", "figure", "engine", "floor", "beside", "is", "asked for", ""];

/// Figures of a case without a target.
const SHOWN: [&str; 3] = ["tools_cpu_s", "cpu_s", "peak_rss_mb"];

/// One target with what was measured.
pub(super) struct Row {
    target: Target,
    engine: f64,
    /// The same figure of the floor it is compared with, or of the case's usual one.
    floor: f64,
    beside: f64,
    compared: f64,
}

impl Row {
    fn new(target: Target, measured: &Measured) -> Self {
        let case = &target.case;
        let floor = target.bound.floor().unwrap_or_else(|| case.usual_floor());
        let median = |subject| measured.median(case, subject, &target.figure);
        Self {
            engine: median(Subject::Engine),
            floor: median(Subject::Floor(floor)),
            beside: median(Subject::Beside(floor)),
            compared: measured.compared(&target),
            target,
        }
    }

    /// Whether the target is not reached.
    pub(super) fn missed(&self) -> bool {
        !self.target.relation.holds(self.compared, self.target.bound.factor)
    }

    fn cells(&self) -> [String; 9] {
        let Target { number, case, figure, relation, bound } = &self.target;
        let asked_for = if *relation == Relation::Shown { String::new() } else { format!("{} {bound}", relation.sign()) };
        let word = match relation {
            Relation::Shown => "",
            _ if self.missed() => "missed",
            _ => "ok",
        };
        [
            number.clone(),
            case.to_string(),
            figure.clone(),
            rounded(self.engine),
            rounded(self.floor),
            rounded(self.beside),
            if bound.of == Yardstick::One { String::new() } else { format!("{} ×", rounded(self.compared)) },
            asked_for,
            word.to_owned(),
        ]
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target { number, case, figure, relation, bound } = &self.target;
        write!(f, "{number}: {case}: {figure} is {}, not {} {bound}", rounded(self.compared), relation.sign())
    }
}

/// Returns a row for each target, and the figures of a case without one.
pub(super) fn rows(cases: &[Case], targets: &[Target], measured: &Measured) -> Vec<Row> {
    let mut rows: Vec<Row> = targets.iter().map(|target| Row::new(target.clone(), measured)).collect();
    for case in cases.iter().filter(|case| targets.iter().all(|target| target.case != **case)) {
        for figure in SHOWN {
            let of = if case.has_floor() { Yardstick::Floor(case.usual_floor()) } else { Yardstick::One };
            let bound = Bound { factor: 1.0, of };
            let figure = figure.to_owned();
            let target = Target { number: "–".to_owned(), case: case.clone(), figure, relation: Relation::Shown, bound };
            rows.push(Row::new(target, measured));
        }
    }
    rows
}

/// Returns the value with four significant digits; empty if nothing was measured.
fn rounded(value: f64) -> String {
    match value.abs() {
        size if size.is_nan() => String::new(),
        0.0 => "0".to_owned(),
        size => {
            let digits = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
            format!("{value:.digits$}")
        }
    }
}

/// Returns the rows in columns.
pub(super) fn columns(rows: &[Row]) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let widths: [usize; 9] =
        std::array::from_fn(|column| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for cells in lines {
        let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Returns the results in the form of BENCHMARKS.md: the machine, then a table.
pub(super) fn results(rows: &[Row]) -> anyhow::Result<String> {
    let cores = std::thread::available_parallelism().context("the number of cores is unknown")?;
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let mut text = format!("Medians, on {cores} cores, {machine}, {system}.\n\n");
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    text.push_str(&line(&HEADINGS.map(str::to_owned)));
    text.push_str(&line(&HEADINGS.map(|_| "---".to_owned())));
    for row in rows {
        text.push_str(&line(&row.cells()));
    }
    Ok(text)
}

/// `page` with `results` in their place.
pub(super) fn with_results(page: &str, results: &str) -> anyhow::Result<String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.with_context(|| format!("BENCHMARKS.md has no lines {BEGIN} and {END}"))?;
    Ok(format!("{before}{BEGIN}\n\n{results}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn row(relation: Relation, measured_mb: Option<f64>) -> Row {
        let case = Case { workload: "q3".into(), n: 1, conc: 1, store: "memory".into() };
        let mut measured = Measured::default();
        if let Some(mb) = measured_mb {
            measured.add(&case, Subject::Engine, &Map::from_iter([("peak_rss_mb".to_owned(), json!(mb))]));
        }
        let bound = Bound { factor: 16.0, of: Yardstick::One };
        let target = Target { number: "4".into(), case, figure: "peak_rss_mb".into(), relation, bound };
        Row::new(target, &measured)
    }

    #[test]
    fn a_missed_target_is_named_with_what_was_measured() {
        assert!(!row(Relation::AtMost, Some(15.9)).missed());
        let missed = row(Relation::AtMost, Some(17.25));
        assert!(missed.missed());
        assert_eq!(missed.to_string(), "4: q3 1 memory: peak_rss_mb is 17.25, not ≤ 16");
        assert!(row(Relation::AtMost, None).missed(), "what was not measured is not reached");
        assert!(!row(Relation::Shown, None).missed());
    }

    #[test]
    fn figures_have_four_digits_that_count() {
        assert_eq!([123_456.7, 12.3456, 0.123_456, 0.000_012_345].map(rounded), ["123457", "12.35", "0.1235", "0.000012"]);
        assert_eq!([0.0, f64::NAN].map(rounded), ["0", ""]);
    }

    #[test]
    fn results_stand_between_their_marks_and_nowhere_else() {
        let page = format!("# Page\n{BEGIN}\nold\n{END}\nmore\n");
        let written = with_results(&page, "new\n").unwrap();
        assert_eq!(written, format!("# Page\n{BEGIN}\n\nnew\n\n{END}\nmore\n"));
        assert_eq!(with_results(&written, "new\n").unwrap(), written, "writing the same again changes nothing");
        assert!(with_results("# Page\n", "new\n").is_err());
    }
}
