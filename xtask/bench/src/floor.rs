//! The same jobs, written by hand.
use crate::measurement::Measurement;
use crate::{Kept, Workload};
pub(crate) fn measure(_: Workload, _: usize, _: usize, _: Kept) -> anyhow::Result<Measurement> { anyhow::bail!("not yet") }
