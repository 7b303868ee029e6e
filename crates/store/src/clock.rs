//! The clock of leases for both stores: time since boot, including sleep. A jump of the wall clock can neither end nor
//! extend a lease, and a lease of another boot is over. Tests replace it with a [`ManualClock`] and move it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// The kernel's id of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The boot id of every [`ManualClock`]: all handles of one test share it.
const MANUAL_BOOT: &str = "00000000-0000-0000-0000-000000000000";

/// The clock by which a store measures its leases. All processes that share a store must use the same clock.
#[derive(Debug, Clone)]
pub struct LeaseClock {
    boot: Arc<str>,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Machine,
    Manual(ManualClock),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// The id of the boot in which the lease was given.
    pub(crate) boot: String,
    /// Milliseconds since that boot.
    pub(crate) until_ms: i64,
}

impl Default for LeaseClock {
    fn default() -> Self {
        // Without /proc the boot has no id. The life locks of lease holders still show which of them died.
        let boot = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
        Self { boot: boot.trim().into(), source: Source::Machine }
    }
}

impl From<&ManualClock> for LeaseClock {
    fn from(clock: &ManualClock) -> Self {
        Self { boot: MANUAL_BOOT.into(), source: Source::Manual(clock.clone()) }
    }
}

impl LeaseClock {
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    pub(crate) fn is_over(&self, expiry: &Expiry) -> bool {
        expiry.boot != *self.boot || self.now_ms() >= expiry.until_ms
    }

    /// The end of a lease that starts now, in milliseconds since boot.
    pub(crate) fn until_ms(&self, lease: Duration) -> i64 {
        // Rounded up to the next millisecond, so that no lease is shorter than its length.
        millis(lease).saturating_add(1).saturating_add(self.now_ms())
    }

    /// When a lease of this length was renewed, in milliseconds since 1970; `None` if that was in another boot. A test's
    /// clock starts in 1970.
    pub(crate) fn renewed_at_ms(&self, expiry: &Expiry, lease: Duration) -> Option<i64> {
        if expiry.boot != *self.boot {
            return None;
        }
        let renewed_ms = expiry.until_ms.saturating_sub(millis(lease)).saturating_sub(1);
        let wall_ms = match &self.source {
            Source::Machine => millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
            Source::Manual(_) => self.now_ms(),
        };
        Some(wall_ms.saturating_sub(self.now_ms()).saturating_add(renewed_ms))
    }

    fn now_ms(&self) -> i64 {
        match &self.source {
            Source::Machine => {
                let now = clock_gettime(ClockId::Boottime);
                now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000)
            }
            Source::Manual(clock) => clock.0.load(Ordering::SeqCst),
        }
    }
}

/// A clock that stands still until a test moves it. Clones share the time.
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(millis(by), Ordering::SeqCst);
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn expiry(clock: &LeaseClock, lease: Duration) -> Expiry {
        Expiry { boot: clock.boot().to_owned(), until_ms: clock.until_ms(lease) }
    }

    #[test]
    fn a_lease_ends_with_its_time_or_its_boot() {
        let manual = ManualClock::default();
        let clock = LeaseClock::from(&manual);
        let expiry = expiry(&clock, SECOND);
        assert!(!clock.is_over(&expiry));
        manual.advance(SECOND);
        assert!(!clock.is_over(&expiry), "a lease is not shorter than its length");
        manual.advance(Duration::from_millis(1));
        assert!(clock.is_over(&expiry));
        let elsewhere = Expiry { boot: "a".to_owned(), until_ms: i64::MAX };
        assert!(clock.is_over(&elsewhere), "a lease of another boot");
    }

    #[test]
    fn a_fresh_lease_of_this_machine_is_not_over() {
        let clock = LeaseClock::default();
        assert!(!clock.is_over(&expiry(&clock, Duration::from_hours(1))));
    }
}
