//! Verdicts, kept from one run of the chore to the next, and their report.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::list::Mutant;
use crate::plant::Planted;
use crate::trial::Verdict;

/// The verdicts on the mutants of one state of the sources.
pub(crate) struct Verdicts {
    known: Mutex<HashMap<String, Verdict>>,
    file: Mutex<File>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    mutant: String,
    reached: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caught_by: Option<String>,
}

/// A mutant that no test can catch, or that none should.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Explained {
    mutant: String,
    reason: String,
}

impl Verdicts {
    /// Returns the verdicts kept below `work` for the sources in the state `state`.
    pub(crate) fn open(work: &Path, state: u64) -> anyhow::Result<Self> {
        let path = work.join(format!("verdicts-{state:016x}.jsonl"));
        let kept = fs::read_to_string(&path).unwrap_or_default();
        let lines = kept.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let known = lines.map(|line| {
            let verdict = match line.caught_by {
                Some(test) => Verdict::Caught(test),
                None if line.reached => Verdict::Survived,
                None => Verdict::Unreached,
            };
            (line.mutant, verdict)
        });
        let known = Mutex::new(known.collect());
        let file = File::options().create(true).append(true).open(&path).context("verdicts cannot be kept")?;
        Ok(Self { known, file: Mutex::new(file) })
    }

    /// Returns the verdict on `mutant`, if known.
    pub(crate) fn of(&self, mutant: &Mutant) -> Option<Verdict> {
        self.known.lock().expect("no thread panics while it holds this").get(&mutant.name).cloned()
    }

    /// Keeps a verdict; the newest counts.
    pub(crate) fn keep(&self, mutant: &Mutant, verdict: &Verdict) -> anyhow::Result<()> {
        let caught_by = match verdict {
            Verdict::Caught(test) => Some(test.clone()),
            Verdict::Survived | Verdict::Unreached => None,
        };
        let line = Line { mutant: mutant.name.clone(), reached: *verdict != Verdict::Unreached, caught_by };
        let line = serde_json::to_string(&line)? + "\n";
        self.file.lock().expect("no thread panics while it holds this").write_all(line.as_bytes())?;
        self.known.lock().expect("no thread panics while it holds this").insert(mutant.name.clone(), verdict.clone());
        Ok(())
    }
}

/// Returns the hash of the sources in `folders`.
pub(crate) fn state(root: &Path, folders: &[&str]) -> anyhow::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for folder in folders {
        hash(&root.join(folder).join("src"), &mut hasher)?;
    }
    Ok(hasher.finish())
}

/// Adds every file below `path` to `hasher`, in the order of their names.
fn hash(path: &Path, hasher: &mut DefaultHasher) -> anyhow::Result<()> {
    if path.is_dir() {
        let mut within = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        within.sort();
        return within.iter().try_for_each(|path| hash(path, hasher));
    }
    (path.file_name(), fs::read(path)?).hash(hasher);
    Ok(())
}

/// Prints the figures and the survivors; whether what was asked for is met.
pub(crate) fn print(
    listed: &[Mutant],
    planted: &Planted,
    verdicts: &Verdicts,
    at_least: Option<f64>,
    explained: &Path,
) -> anyhow::Result<bool> {
    let text = fs::read_to_string(explained).with_context(|| format!("{} cannot be read", explained.display()))?;
    let reasons: Vec<Explained> = serde_json::from_str(&text).with_context(|| format!("{} is wrong", explained.display()))?;
    let reasons: BTreeMap<String, String> = reasons.into_iter().map(|line| (line.mutant, line.reason)).collect();
    let (mut caught, mut survived, mut unexplained, mut untried) = (0_u32, 0_u32, 0_u32, 0_u32);
    for mutant in listed.iter().filter(|mutant| !planted.left_out.contains_key(&mutant.id)) {
        let what = match verdicts.of(mutant) {
            Some(Verdict::Caught(_)) => {
                caught += 1;
                continue;
            }
            None => {
                untried += 1;
                continue;
            }
            Some(Verdict::Survived) => "survived",
            Some(Verdict::Unreached) => "no test comes by",
        };
        survived += 1;
        let reason = reasons.get(&mutant.label());
        unexplained += u32::from(reason.is_none());
        println!("{what}: {}{}", mutant.name, reason.map(|reason| format!("\n    {reason}")).unwrap_or_default());
    }
    let mut why: BTreeMap<&str, u32> = BTreeMap::new();
    for reason in planted.left_out.values() {
        *why.entry(reason.split(':').next().unwrap_or(reason)).or_default() += 1;
    }
    for (reason, count) in why {
        println!("{count} left out: {reason}");
    }
    let score = 100.0 * f64::from(caught) / f64::from((caught + survived).max(1));
    println!(
        "{} mutants: {caught} caught, {survived} not ({unexplained} without a reason), {} left out, {untried} not tried; score {score:.1} %",
        listed.len(),
        planted.left_out.len()
    );
    Ok(at_least.is_none_or(|wanted| score >= wanted && unexplained == 0))
}
