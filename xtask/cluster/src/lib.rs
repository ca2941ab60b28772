//! The cluster kit: three workers, three NATS servers and a database on a network of their own, while parts of it are cut off, stopped and
//! restarted.
//!
//! A [`Fleet`] is everything that runs. [`Trial`] is one fault: a client queues runs before, during and after it. Each run has calls whose
//! effects are noted in a ledger, a file that the engine never reads. When all runs have ended, [`checker`] reads their histories and the
//! ledger: no run is lost, and no effect is doubled. A trial also measures how long it took until runs that waited continued.
//!
//! What the kit does *not* try: slow and lossy networks, a database with standbys, and most faults at the same time.

mod bus;
pub mod checker;
mod faults;
mod fleet;
mod network;
mod observe;
mod process;
mod trial;

use std::time::{Duration, Instant};

pub use faults::{Fault, Lengths};
pub use fleet::Fleet;
pub use network::{Network, Unavailable};
pub use trial::{Row, Trial, table};

/// Longest time until a server or a worker is ready.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// Waits until `is_so`, and fails with `what` after `patience`.
fn wait(what: &str, patience: Duration, mut is_so: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let give_up = Instant::now() + patience;
    while !is_so()? {
        anyhow::ensure!(Instant::now() < give_up, "after {} s it is not yet so that {what}", patience.as_secs());
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
