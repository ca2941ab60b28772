//! Clocks of the engine. The core never reads the time.

use std::time::Duration;

use baton_types::time::Timestamp;

/// A source of moments and of waiting.
pub trait Clock: Send + Sync + 'static {
    /// Returns the moment now.
    fn now(&self) -> Timestamp;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
    }
}

/// A clock that starts at a given moment and moves with tokio's time, which tests may pause and advance.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    began_at: Timestamp,
    began: tokio::time::Instant,
}

impl SteadyClock {
    /// Returns a clock that shows `moment` now. Must be called inside a tokio runtime.
    pub fn starting_at(moment: Timestamp) -> Self {
        Self { began_at: moment, began: tokio::time::Instant::now() }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        self.began_at.plus(self.began.elapsed())
    }
}

/// The longest single sleep: a wall clock that is set forward is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// Completes at `moment` by `clock`; never, when there is no moment.
pub(crate) async fn sleep_until(clock: &dyn Clock, moment: Option<Timestamp>) {
    let Some(moment) = moment else { return std::future::pending().await };
    loop {
        let left = moment.since(clock.now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
    }
}
