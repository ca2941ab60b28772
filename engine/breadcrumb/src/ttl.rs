//! The end of a record: never, at a moment, after some time, or after a number of reads.

use std::time::Duration;

use baton_types::breadcrumb::{Breadcrumb, TtlConfig, TtlSource, TtlType};
use baton_types::time::Timestamp;

use crate::BreadcrumbError;

/// The longest time to an end: a hundred years. A longer one is a mistake of the unit.
const LONGEST_MINUTES: u64 = 100 * 366 * 24 * 60;

/// The end that a writer or a definition wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) at: Option<Timestamp>,
    pub(crate) kind: Option<TtlType>,
    pub(crate) config: Option<TtlConfig>,
}

impl Wanted {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Sets the end of `record`, which `source` wants at the moment `now`.
    pub(crate) fn set(self, record: &mut Breadcrumb, source: TtlSource, now: Timestamp) -> Result<(), BreadcrumbError> {
        let config = self.config.unwrap_or_default();
        let minutes = minutes(&config)?;
        let (has_moment, has_time, has_reads) = (self.at.is_some(), minutes.is_some(), config.max_reads.is_some());
        let kind = self.kind.unwrap_or(match (has_moment, has_time, has_reads) {
            (false, false, false) => TtlType::Never,
            (true, false, false) => TtlType::Datetime,
            (false, true, false) => TtlType::Duration,
            (false, false, true) => TtlType::Usage,
            _ => TtlType::Hybrid,
        });
        let wrong = |reason: &str| Err(BreadcrumbError::invalid("ttl_type", reason));
        match kind {
            TtlType::Never if has_moment || has_time || has_reads => {
                return wrong("`never` has no end; leave ttl and ttl_config out");
            }
            TtlType::Datetime if !has_moment || has_time || has_reads => {
                return wrong("`datetime` needs the moment in ttl, and no ttl_config");
            }
            TtlType::Duration if has_moment || !has_time || has_reads => {
                return wrong("`duration` needs minutes, hours or days in ttl_config, and nothing else");
            }
            TtlType::Usage if has_moment || has_time || !has_reads => {
                return wrong("`usage` needs max_reads in ttl_config, and nothing else");
            }
            TtlType::Hybrid if !has_reads || !(has_moment || has_time) => {
                return wrong("`hybrid` needs max_reads in ttl_config, and a moment or a time");
            }
            _ => {}
        }
        if config.max_reads == Some(0) {
            return Err(BreadcrumbError::invalid("ttl_config", "max_reads is 0; a record is read once at least"));
        }
        let after_time = minutes.map(|minutes| now.plus(Duration::from_secs(minutes * 60)));
        let end = self.at.into_iter().chain(after_time).min();
        if end.is_some_and(|end| end <= now) {
            return Err(BreadcrumbError::invalid("ttl", "the moment has passed, so the record would be gone at once"));
        }
        record.ttl = end;
        record.ttl_type = kind;
        record.ttl_config = self.config.filter(|config| *config != TtlConfig::default());
        record.ttl_source = (kind != TtlType::Never || source != TtlSource::Explicit).then_some(source);
        Ok(())
    }
}

fn minutes(config: &TtlConfig) -> Result<Option<u64>, BreadcrumbError> {
    let TtlConfig { minutes, hours, days, max_reads: _ } = *config;
    if minutes.is_none() && hours.is_none() && days.is_none() {
        return Ok(None);
    }
    let of = |number: Option<u64>, factor: u64| number.unwrap_or(0).checked_mul(factor);
    let sum = [of(minutes, 1), of(hours, 60), of(days, 24 * 60)].into_iter().try_fold(0_u64, |sum, part| sum.checked_add(part?));
    match sum {
        Some(0) => Err(BreadcrumbError::invalid("ttl_config", "the time is 0; expected minutes, hours or days above 0")),
        Some(sum) if sum <= LONGEST_MINUTES => Ok(Some(sum)),
        _ => Err(BreadcrumbError::invalid("ttl_config", "the time is longer than a hundred years; use ttl_type never")),
    }
}

/// Whether a record has ended at the moment `now`.
pub fn is_gone(record: &Breadcrumb, now: Timestamp) -> bool {
    let is_read_up = record.ttl_config.and_then(|config| config.max_reads).is_some_and(|most| record.read_count >= most);
    record.ttl.is_some_and(|end| end <= now) || is_read_up
}
