//! Figures and their measurement by the process. The engine's benchmark includes this file and measures the same.

use std::sync::OnceLock;
use std::time::Instant;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

/// Processor time and moment of the first call of any tool: where `startup` ends.
static FIRST_CALL: OnceLock<(f64, f64)> = OnceLock::new();

/// Notes the first call of any tool.
pub(crate) fn first_call() {
    FIRST_CALL.get_or_init(|| (cpu_seconds(), unix_seconds()));
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> f64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(f64::NAN, |since| since.as_secs_f64())
}

/// Seconds of processor time that this process has used, all threads together.
pub(crate) fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Returns the largest resident memory so far, in MB (2^20 bytes).
fn peak_rss_mb() -> f64 {
    status_kb("VmHWM:") / 1024.0
}

/// Returns the resident memory now, in bytes.
pub(crate) fn rss_bytes() -> f64 {
    status_kb("VmRSS:") * 1024.0
}

/// Bytes handed to the system's `write` so far, all files together.
pub(crate) fn written_bytes() -> u64 {
    field("/proc/self/io", "wchar:") as u64
}

fn status_kb(key: &str) -> f64 {
    field("/proc/self/status", key)
}

fn field(path: &str, key: &str) -> f64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
}

/// The two clocks, started together.
pub(crate) struct Stopwatch {
    began: Instant,
    cpu: f64,
    written: u64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), cpu: cpu_seconds(), written: written_bytes() }
    }

    /// Returns the figures since the start, for a job of `tools` tool calls in `jobs` runs.
    pub(crate) fn stop(&self, tools: usize, jobs: usize) -> Measurement {
        let (secs, cpu_s) = (self.began.elapsed().as_secs_f64(), cpu_seconds() - self.cpu);
        let mut measurement = Measurement::default();
        measurement.set("secs", secs);
        measurement.set("cpu_s", cpu_s);
        measurement.set("tools", tools as f64);
        measurement.set("tools_s", tools as f64 / secs);
        measurement.set("tools_cpu_s", tools as f64 / cpu_s);
        measurement.set("jobs_s", jobs as f64 / secs);
        measurement.set("bytes_written", (written_bytes() - self.written) as f64);
        measurement.set("peak_rss_mb", peak_rss_mb());
        measurement
    }
}

/// The figures of one measurement, by name.
#[derive(Default)]
pub(crate) struct Measurement(Map<String, Value>);

impl Measurement {
    /// Adds a figure; `null` if it is none.
    pub(crate) fn set(&mut self, name: &str, value: f64) {
        let whole = value.fract() == 0.0 && value.abs() < 1e15;
        self.0.insert(name.to_owned(), if whole { json!(value as i64) } else { json!(value) });
    }

    /// Adds a word.
    pub(crate) fn name(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), Value::String(value.into()));
    }

    /// Adds what was noted at the [`first_call`]: processor time, and since when the process was asked for.
    pub(crate) fn startup(&mut self) -> anyhow::Result<()> {
        let &(cpu_s, at) = FIRST_CALL.get().context("no tool was called")?;
        self.set("cpu_s", cpu_s);
        let began: Option<f64> = std::env::var("BENCH_T0").ok().and_then(|text| text.parse().ok());
        self.set("startup_ms", began.map_or(f64::NAN, |began| (at - began) * 1e3));
        Ok(())
    }

    pub(crate) fn json(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

/// A point within a run: how much processor time was used and how much was written until then, and how much memory is resident.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mark {
    cpu: f64,
    written: u64,
    rss: f64,
}

impl Mark {
    pub(crate) fn now() -> Self {
        Self { cpu: cpu_seconds(), written: written_bytes(), rss: rss_bytes() }
    }
}

/// Whether a mark is taken at this turn of `n`: at 0, 10, 90 and 100 %.
pub(crate) fn takes_mark(turn: usize, n: usize) -> bool {
    let tenth = n / 10;
    tenth > 0 && (turn == 1 || turn == 1 + tenth || turn == n + 1 - tenth || turn == n + 1)
}

/// Adds the cost of a turn in the first and in the last tenth of a run. `marks` were taken where [`takes_mark`] is
/// true.
pub(crate) fn tenths(measurement: &mut Measurement, marks: &[Mark], turns_in_a_tenth: usize) {
    let [zero, ten, ninety, all] = marks else { return };
    let each = turns_in_a_tenth as f64;
    measurement.set("first_tenth_us", (ten.cpu - zero.cpu) / each * 1e6);
    measurement.set("last_tenth_us", (all.cpu - ninety.cpu) / each * 1e6);
    measurement.set("first_tenth_bytes", (ten.written - zero.written) as f64 / each);
    measurement.set("last_tenth_bytes", (all.written - ninety.written) as f64 / each);
    measurement.set("rss_per_turn_bytes", (ninety.rss - ten.rss) / (8.0 * each));
}
