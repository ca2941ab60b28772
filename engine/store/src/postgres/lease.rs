//! Which owners are alive: each process that owns runs has a lease, a row that it renews.
//!
//! Only the clock of the database counts. A process whose renewals were late considers no owner dead until one lease time has
//! passed. The same holds for every process after the server started. After an outage all leases have ended, and the owners
//! must have time to renew them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;

use super::pool::Pool;
use super::value::values;
use crate::StoreError;

/// Time for which an owner is alive after a renewal.
const LEASE: Duration = Duration::from_secs(20);

/// Time between two renewals.
const RENEWAL: Duration = Duration::from_secs(5);

/// Time after which the lease of a dead owner is forgotten. An owner without a lease is dead too.
const FORGOTTEN: &str = "1 day";

/// Number of owners whose state is remembered.
const MAX_OWNERS: usize = 10_000;

/// A condition over `r`, a row of `baton.runs`, and `l`, the lease of its owner: whether the owner is alive.
pub(super) const IS_ALIVE: &str = "(l.owner IS NOT NULL AND (l.expires > clock_timestamp()
    OR pg_postmaster_start_time() > clock_timestamp() - interval '20 seconds'))";

/// The lease of this opening of the store, and what is known of other owners.
#[derive(Debug)]
pub(super) struct Leases {
    name: String,
    begun: OnceCell<()>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// For each owner, its state when a run of it was read last: true if it was alive.
    owners: FxHashMap<String, bool>,
    /// Moment until which every known owner counts as alive.
    patient_until: Option<Instant>,
}

impl Leases {
    pub(super) fn new() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = format!("process {}-{:08x} on {host}", std::process::id(), super::random() >> 32);
        Self { name, begun: OnceCell::new(), known: Mutex::default() }
    }

    /// Returns the name under which this opening owns runs.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the lease if `owner` is this opening, before it owns its first run. The lease is renewed until `closed` closes.
    pub(super) async fn begin(
        self: &Arc<Self>,
        owner: &str,
        pool: &Pool,
        closed: &watch::Receiver<()>,
    ) -> Result<(), StoreError> {
        if owner != self.name {
            return Ok(());
        }
        let begin = async || {
            let forgotten = &format!("DELETE FROM baton.leases WHERE expires < clock_timestamp() - interval '{FORGOTTEN}'");
            pool.write(|client| async move { Ok(client.execute_typed(forgotten, &[]).await?) }).await?;
            self.renew(pool).await?;
            tokio::spawn(renew_until_closed(Arc::downgrade(self), pool.clone(), closed.clone()));
            Ok(())
        };
        let begun: Result<&(), StoreError> = self.begun.get_or_try_init(begin).await;
        begun.copied()
    }

    async fn renew(&self, pool: &Pool) -> Result<(), StoreError> {
        // The query in RETURNING reads the row as it was before.
        let renew = "INSERT INTO baton.leases (owner, expires) VALUES ($1, clock_timestamp() + make_interval(secs => $2))
                     ON CONFLICT (owner) DO UPDATE SET expires = excluded.expires
                     RETURNING (SELECT expires < clock_timestamp() FROM baton.leases WHERE owner = $1)";
        // It may be repeated, so a lost connection does no harm.
        let was_late = pool
            .read(|client| async move {
                let row = client.query_typed_one(renew, values![self.name, LEASE.as_secs_f64()]).await?;
                Ok(row.try_get::<_, Option<bool>>(0)?)
            })
            .await?;
        if was_late == Some(true) {
            self.be_patient();
        }
        Ok(())
    }

    /// Takes no owner for dead for one lease.
    fn be_patient(&self) {
        self.lock().patient_until = Some(Instant::now() + LEASE);
    }

    /// Remembers whether an owner is alive, as a query found it.
    pub(super) fn learn(&self, owner: &str, is_alive: bool) {
        let mut known = self.lock();
        if known.owners.len() >= MAX_OWNERS && !known.owners.contains_key(owner) {
            known.owners.clear();
        }
        known.owners.insert(owner.to_owned(), is_alive);
    }

    /// Whether an owner was alive when a run of it was read last; `None` if none was.
    pub(super) fn is_there(&self, owner: &str) -> Option<bool> {
        if owner == self.name {
            return Some(true);
        }
        let known = self.lock();
        let is_patient = known.patient_until.is_some_and(|until| Instant::now() < until);
        known.owners.get(owner).map(|is_alive| *is_alive || is_patient)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn renew_until_closed(leases: Weak<Leases>, pool: Pool, mut closed: watch::Receiver<()>) {
    let mut renewed = Instant::now();
    loop {
        tokio::select! {
            _closed = closed.changed() => return,
            () = tokio::time::sleep(RENEWAL) => {}
        }
        let Some(leases) = leases.upgrade() else { return };
        match leases.renew(&pool).await {
            Ok(()) => {
                // Slow renewals are an outage too, even if the lease did not end.
                if renewed.elapsed() > LEASE / 2 {
                    leases.be_patient();
                }
                renewed = Instant::now();
            }
            Err(error) => tracing::warn!(%error, "the lease of this process is not renewed"),
        }
    }
}
