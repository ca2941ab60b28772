//! Usage of a filter, counted on the thread that it runs on.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jaq_json::{Num, Val};

/// Limits of one filter.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Values that pass from one part of the filter to the next.
    pub steps: u64,
    /// The weight of all that is made: a value, or eight bytes of text, weigh one.
    pub work: u64,
    /// Longest time.
    pub time: Duration,
    /// Largest number of outputs.
    pub outputs: usize,
    /// Largest number of bytes of the outputs as JSON.
    pub bytes: usize,
}

/// Deepest nesting of a value: code that reads and drops values recurses.
pub(super) const MAX_NESTING: usize = 120;
/// The most that a single value may weigh.
const MAX_WEIGHT: u64 = 1_000_000;
/// The largest whole number; multiplying and writing larger ones takes too long between two steps.
const MAX_INTEGER_BITS: u64 = 65_536;
/// The stack of the thread: memory is taken only as it is used.
const STACK_BYTES: usize = 256 * 1024 * 1024;
/// Stack bytes for a filter's recursion. The rest is for the code between two steps.
const MAX_STACK_BYTES: usize = STACK_BYTES / 2;
/// Steps between two looks at the clock.
const STEPS_PER_LOOK: u64 = 64;

/// Counts for one filter.
pub(super) struct Meter {
    bounds: Bounds,
    begin: Instant,
    steps: u64,
    work: u64,
    stack: usize,
    stopped: Arc<AtomicBool>,
}

thread_local! {
    static METER: RefCell<Option<Meter>> = const { RefCell::new(None) };
}

/// Unwinds a filter that exceeds a limit. Nothing in jq can catch it.
struct Stop(String);

impl Meter {
    /// Begins to count on this thread.
    pub(super) fn begin(bounds: Bounds, stopped: Arc<AtomicBool>) {
        let meter = Self { bounds, begin: Instant::now(), steps: 0, work: 0, stack: stack_position(), stopped };
        METER.with_borrow_mut(|slot| *slot = Some(meter));
    }

    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > self.bounds.steps {
            return Err(format!("the filter takes more than {} steps", self.bounds.steps));
        }
        if self.stack.abs_diff(stack_position()) > MAX_STACK_BYTES {
            return Err("the filter recurses too deep".to_owned());
        }
        if self.steps.is_multiple_of(STEPS_PER_LOOK) {
            if self.stopped.load(Ordering::Relaxed) {
                return Err("the call was cancelled".to_owned());
            }
            if self.begin.elapsed() > self.bounds.time {
                return Err(format!("the filter runs longer than {} seconds", self.bounds.time.as_secs_f64()));
            }
        }
        Ok(())
    }

    fn weigh(&mut self, value: &Val) -> Result<(), String> {
        let mut left = MAX_WEIGHT.min(self.bounds.work.saturating_sub(self.work));
        let before = left;
        let fits = weigh(value, 0, &mut left);
        self.work += before - left;
        fits.map_err(
            |reason| if before < MAX_WEIGHT && left == 0 { "the filter makes too much output".to_owned() } else { reason },
        )
    }
}

/// Counts a step.
pub(super) fn step() {
    stop_on(METER.with_borrow_mut(|meter| meter.as_mut().map_or(Ok(()), Meter::step)));
}

/// Counts a step and weighs what it made.
pub(super) fn check(value: &Val) {
    step();
    stop_on(METER.with_borrow_mut(|meter| meter.as_mut().map_or(Ok(()), |meter| meter.weigh(value))));
}

/// Ends the filter if there is a reason.
pub(super) fn stop_on(result: Result<(), String>) {
    if let Err(reason) = result {
        resume_unwind(Box::new(Stop(reason)));
    }
}

/// Takes the weight of `value` off `left`; an error if that is not enough or the value nests too deep.
fn weigh(value: &Val, depth: usize, left: &mut u64) -> Result<(), String> {
    let own = 1 + match value {
        Val::TStr(text) | Val::BStr(text) => text.len() as u64 / 8,
        Val::Num(Num::BigInt(number)) if number.bits() > MAX_INTEGER_BITS => MAX_WEIGHT,
        Val::Num(Num::BigInt(number)) => number.bits() / 64,
        Val::Num(Num::Dec(digits)) => digits.len() as u64 / 8,
        _ => 0,
    };
    if own > *left {
        *left = 0;
        return Err("the filter makes a value that is too large".to_owned());
    }
    *left -= own;
    if depth > MAX_NESTING {
        return Err(format!("the filter makes a value that nests deeper than {MAX_NESTING} levels"));
    }
    match value {
        Val::Arr(values) => values.iter().try_for_each(|value| weigh(value, depth + 1, left)),
        Val::Obj(entries) => entries.iter().try_for_each(|(key, value)| {
            weigh(key, depth + 1, left)?;
            weigh(value, depth + 1, left)
        }),
        _ => Ok(()),
    }
}

/// Refuses a product that would be a huge text or number before it is made.
pub(super) fn check_product(left: &Val, right: &Val) {
    let length = |value: &Val| match value {
        Val::TStr(text) | Val::BStr(text) => Some(text.len() as u64),
        _ => None,
    };
    let times = |value: &Val| match value {
        Val::Num(Num::Int(count)) => u64::try_from(*count).unwrap_or(0),
        Val::Num(Num::Float(count)) => *count as u64,
        Val::Num(_) => u64::MAX,
        _ => 0,
    };
    let size = match (length(left), length(right)) {
        (Some(length), None) => length.max(1).saturating_mul(times(right)),
        (None, Some(length)) => length.max(1).saturating_mul(times(left)),
        _ => 0,
    };
    if size / 8 > MAX_WEIGHT {
        stop_on(Err("the filter makes a value that is too large".to_owned()));
    }
}

/// Returns the present position of the stack, approximately.
fn stack_position() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(&here).addr()
}

/// Runs `work` on a thread with a large stack and turns whatever ends it into an error.
pub(super) fn on_own_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let thread = std::thread::Builder::new().name("jq".to_owned()).stack_size(STACK_BYTES).spawn(work);
    let thread = thread.map_err(|error| format!("no thread could be started: {error}"))?;
    thread.join().unwrap_or_else(|payload| match payload.downcast::<Stop>() {
        Ok(stop) => Err(format!("{} and was stopped", stop.0)),
        Err(_) => Err("the jq library failed on the filter".to_owned()),
    })
}
