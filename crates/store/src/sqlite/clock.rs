//! The clock of leases: time since boot, asleep or awake. A jump of the wall clock can neither end nor stretch a
//! lease, and a lease of another boot is over.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Where the kernel says which boot this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Time since this boot.
#[derive(Debug, Clone)]
pub(super) struct BootClock {
    boot: String,
}

/// When a lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expiry {
    /// The boot it was given in.
    pub(super) boot: String,
    /// Milliseconds since that boot.
    pub(super) until_ms: i64,
}

impl BootClock {
    pub(super) fn new() -> Self {
        // Without /proc the boot has no name; the owners' locks still tell who died with it.
        let boot = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
        Self { boot: boot.trim().to_owned() }
    }

    /// This boot's name.
    pub(super) fn boot(&self) -> &str {
        &self.boot
    }

    /// Whether a lease is over.
    pub(super) fn is_over(&self, expiry: &Expiry) -> bool {
        is_over(expiry, &self.boot, now_ms())
    }
}

/// The end of a lease that starts now, in milliseconds since boot.
pub(super) fn until_ms(lease: Duration) -> i64 {
    // What is left of the present millisecond counts too: no lease is shorter than it was said to be.
    let length = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX).saturating_add(1);
    now_ms().saturating_add(length)
}

fn now_ms() -> i64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000)
}

fn is_over(expiry: &Expiry, boot: &str, now_ms: i64) -> bool {
    expiry.boot != boot || now_ms >= expiry.until_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_with_its_time_or_its_boot() {
        let expiry = Expiry { boot: "a".to_owned(), until_ms: 1_000 };
        assert!(!is_over(&expiry, "a", 999));
        assert!(is_over(&expiry, "a", 1_000));
        assert!(is_over(&expiry, "b", 0), "a lease of another boot");
    }

    #[test]
    fn a_fresh_lease_is_not_over() {
        let clock = BootClock::new();
        let expiry = Expiry { boot: clock.boot().to_owned(), until_ms: until_ms(Duration::from_hours(1)) };
        assert!(!clock.is_over(&expiry));
    }
}
