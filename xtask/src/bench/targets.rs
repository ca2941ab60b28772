//! The targets: a table in BENCHMARKS.md, which is read directly, so that the page is always right.

use std::fmt;

use anyhow::{Context, bail, ensure};

/// The first line of the table.
const HEAD: &str = "| # | workload | n | conc | store | figure | is | bound |";

/// A job at a size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    pub(super) workload: String,
    pub(super) n: usize,
    pub(super) conc: usize,
    pub(super) store: String,
}

impl Case {
    /// Whether the job can be done without an engine.
    pub(super) fn has_floor(&self) -> bool {
        !matches!(self.workload.as_str(), "blocked" | "resume" | "children" | "suspended")
    }

    /// Returns the floor with the same durability as the case's store.
    pub(super) fn usual_floor(&self) -> Floor {
        if self.store == "sqlite" { Floor::Log } else { Floor::Memory }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.workload, self.n)?;
        if self.conc != 1 {
            write!(f, " × {}", self.conc)?;
        }
        write!(f, " {}", self.store)
    }
}

/// Durability of a floor's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Floor {
    /// Not at all.
    Memory,
    /// In a log, flushed once for all that wait.
    Log,
    /// In `SQLite`, one commit each.
    Sqlite,
}

impl Floor {
    /// As `baton-floor` calls it.
    pub(super) fn store(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Log => "log",
            Self::Sqlite => "sqlite",
        }
    }

    /// As the program beside calls it.
    pub(super) fn variant(self) -> &'static str {
        match self {
            Self::Memory => "mem",
            Self::Log => "group",
            Self::Sqlite => "sqlite-full",
        }
    }
}

/// Subject of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Engine,
    Floor(Floor),
    /// Another program's floor.
    Beside(Floor),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine => f.write_str("engine"),
            Self::Floor(floor) => write!(f, "floor {}", floor.store()),
            Self::Beside(floor) => write!(f, "floor {} beside", floor.store()),
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) number: String,
    pub(super) case: Case,
    pub(super) figure: String,
    pub(super) relation: Relation,
    pub(super) bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    AtLeast,
    AtMost,
    MoreThan,
    /// Nothing is asked: the figure is only shown.
    Shown,
}

impl Relation {
    /// Whether `measured` is what it should be. What was not measured is not.
    pub(super) fn holds(self, measured: f64, bound: f64) -> bool {
        match self {
            Self::AtLeast => measured >= bound,
            Self::AtMost => measured <= bound,
            Self::MoreThan => measured > bound,
            Self::Shown => true,
        }
    }

    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::AtLeast => "≥",
            Self::AtMost => "≤",
            Self::MoreThan => ">",
            Self::Shown => "–",
        }
    }
}

/// Comparison for a figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bound {
    pub(super) factor: f64,
    pub(super) of: Yardstick,
}

impl Bound {
    /// Returns the floor it is compared with.
    pub(super) fn floor(&self) -> Option<Floor> {
        match self.of {
            Yardstick::Floor(floor) => Some(floor),
            Yardstick::One | Yardstick::Figure(_) => None,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Yardstick::One => write!(f, "{}", self.factor),
            Yardstick::Floor(floor) => write!(f, "{} × floor {}", self.factor, floor.store()),
            Yardstick::Figure(figure) => write!(f, "{} × {figure}", self.factor),
        }
    }
}

/// Base of a bound's factor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Yardstick {
    /// Nothing: the factor is the bound.
    One,
    /// The same figure of a floor.
    Floor(Floor),
    /// Another figure of the same measurement.
    Figure(String),
}

/// Reads the targets out of `page`.
pub(super) fn parse(page: &str) -> anyhow::Result<Vec<Target>> {
    let mut lines = page.lines().skip_while(|line| *line != HEAD);
    ensure!(lines.next().is_some(), "BENCHMARKS.md has no table that begins with {HEAD}");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|line| row(line).with_context(|| format!("BENCHMARKS.md: {line}"))).collect()
}

fn row(line: &str) -> anyhow::Result<Target> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let &[number, workload, n, conc, store, figure, relation, bound] = cells.as_slice() else {
        bail!("a target has eight cells, this row {}", cells.len());
    };
    let case = Case {
        workload: workload.to_owned(),
        n: n.parse().context("n is not a number")?,
        conc: conc.parse().context("conc is not a number")?,
        store: store.to_owned(),
    };
    let relation = match relation {
        "≥" => Relation::AtLeast,
        "≤" => Relation::AtMost,
        ">" => Relation::MoreThan,
        "–" => Relation::Shown,
        other => bail!("{other} is not a relation; expected ≥, ≤, > or –"),
    };
    Ok(Target { number: number.to_owned(), case, figure: figure.to_owned(), relation, bound: bound_of(bound)? })
}

fn bound_of(text: &str) -> anyhow::Result<Bound> {
    let (factor, of) = match text.split_once(" × ") {
        None => (text, Yardstick::One),
        Some((factor, "floor memory")) => (factor, Yardstick::Floor(Floor::Memory)),
        Some((factor, "floor log")) => (factor, Yardstick::Floor(Floor::Log)),
        Some((factor, "floor sqlite")) => (factor, Yardstick::Floor(Floor::Sqlite)),
        Some((_, floor)) if floor.starts_with("floor") => {
            bail!("{floor} is unknown; expected floor memory, floor log or floor sqlite")
        }
        Some((factor, figure)) => (factor, Yardstick::Figure(figure.to_owned())),
    };
    Ok(Bound { factor: factor.parse().with_context(|| format!("{factor} is not a number"))?, of })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &str) -> String {
        format!("# Page\n\n{HEAD}\n| --- | --- |\n{rows}\n\n| not | a | target |\n")
    }

    #[test]
    fn a_row_is_a_target() {
        let text = table(
            "| 1 | q3 | 2000 | 64 | memory | tools_cpu_s | ≥ | 0.5 × floor memory |\n| 3 | long | 50 | 1 | sqlite | last | ≤ | 1.15 × first |",
        );
        let [first, second] = &parse(&text).unwrap()[..] else { panic!("two rows") };
        assert_eq!(first.case.to_string(), "q3 2000 × 64 memory");
        assert_eq!(first.bound, Bound { factor: 0.5, of: Yardstick::Floor(Floor::Memory) });
        assert_eq!((first.relation, first.figure.as_str()), (Relation::AtLeast, "tools_cpu_s"));
        assert_eq!(second.bound.to_string(), "1.15 × first");
    }

    #[test]
    fn a_row_that_says_nothing_sure_is_an_error() {
        for row in [
            "| 1 | q3 | 2000 | 1 | memory | x | ≥ |",
            "| 1 | q3 | many | 1 | memory | x | ≥ | 1 |",
            "| 1 | q3 | 2000 | 1 | memory | x | about | 1 |",
            "| 1 | q3 | 2000 | 1 | memory | x | ≥ | half × floor log |",
            "| 1 | q3 | 2000 | 1 | memory | x | ≥ | 0.5 × floor |",
        ] {
            assert!(parse(&table(row)).is_err(), "{row}");
        }
        assert!(parse("# A page without targets").is_err());
    }

    #[test]
    fn what_was_not_measured_meets_no_bound() {
        assert!(Relation::AtLeast.holds(0.5, 0.5) && Relation::AtMost.holds(0.5, 0.5) && !Relation::MoreThan.holds(0.5, 0.5));
        for relation in [Relation::AtLeast, Relation::AtMost, Relation::MoreThan] {
            assert!(!relation.holds(f64::NAN, 1.0));
        }
    }

    #[test]
    fn the_page_in_the_repository_can_be_read() {
        let page = std::fs::read_to_string(crate::project::root().join("BENCHMARKS.md")).unwrap();
        let numbers: std::collections::BTreeSet<_> = parse(&page).unwrap().into_iter().map(|target| target.number).collect();
        assert!(["1", "2", "3", "4", "5", "6", "7", "8"].iter().all(|number| numbers.contains(*number)));
    }
}
