//! The conformance suite for store implementations, one function per guarantee. Each panics with the guarantee that
//! does not hold.
//!
//! The tests of a store pass a [`World`] to [`conformance_tests!`](crate::conformance_tests):
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use posse_engine::ports::Store;
//! use posse_store::conformance::{LABEL, LEASE, World, commits};
//! use posse_store::{LeaseClock, ManualClock, MemoryStore};
//!
//! struct Memory {
//!     store: MemoryStore,
//!     clock: ManualClock,
//! }
//!
//! impl World for Memory {
//!     fn open(&self) -> Arc<dyn Store> {
//!         Arc::new(self.store.another_process())
//!     }
//!
//!     fn advance(&self, by: Duration) {
//!         self.clock.advance(by);
//!     }
//! }
//!
//! let clock = ManualClock::default();
//! let store = MemoryStore::new().with_lease(LEASE).with_label(LABEL).with_clock(LeaseClock::from(&clock));
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! commits::numbers_have_no_gaps(&Memory { store, clock }).await;
//! # });
//! ```
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a suite reports by panicking")]

pub mod blobs;
pub mod claimable;
pub mod commits;
mod fixture;
pub mod leases;
pub mod mailbox;
pub mod reads;
pub mod removals;
pub mod tables;
pub mod watches;

use std::sync::Arc;
use std::time::Duration;

use posse_engine::ports::Store;

/// Lease time of every process of a [`World`].
pub const LEASE: Duration = Duration::from_secs(10);
/// The label of every process of a [`World`].
pub const LABEL: &str = "build-7:4711";

/// One set of data, with a lease clock that only the checks move. Every handle represents a process that shares the
/// data.
pub trait World: Send + Sync {
    /// Opens a handle for another process. Dropping the handle simulates the death of that process.
    fn open(&self) -> Arc<dyn Store>;

    /// Moves the store's clock.
    fn advance(&self, by: Duration);
}

/// Creates one test per guarantee. The expression must create a new [`World`](crate::conformance::World) each time.
#[macro_export]
macro_rules! conformance_tests {
    ($world:expr) => {
        $crate::conformance_tests! { @each $world;
            commits::numbers_have_no_gaps,
            commits::a_stale_head_is_a_conflict,
            commits::commits_in_flight_keep_their_order,
            commits::after_a_failed_commit_those_behind_it_fail,
            commits::a_commit_is_whole_or_nothing,
            commits::one_bad_commit_hurts_no_other,
            commits::a_run_is_created_once,
            commits::a_run_must_exist,
            commits::what_makes_no_sense_is_refused,
            commits::a_commit_may_have_no_events,
            commits::a_large_commit_is_not_split,
            commits::events_are_chained_by_hash,
            reads::reads_come_in_order_and_within_limits,
            reads::reads_give_back_what_was_written,
            watches::watchers_are_woken_by_commits_here_and_elsewhere,
            watches::watchers_are_woken_by_mail,
            watches::watchers_may_come_before_the_run,
            watches::nothing_is_missed_or_repeated_over_disconnects,
            leases::only_one_of_many_claims_is_granted,
            leases::epochs_grow_with_every_lease,
            leases::a_process_that_lost_its_lease_is_fenced,
            leases::a_dead_lease_holder_is_replaced_at_once_where_the_store_notices_death,
            leases::a_dead_lease_holder_is_replaced_after_its_lease,
            leases::a_list_says_when_an_expired_lease_was_renewed,
            leases::a_silent_lease_holder_is_replaced_after_its_lease,
            leases::an_expired_lease_binds_its_holder_to_nothing_until_another_claims,
            leases::heartbeats_keep_a_lease,
            leases::commits_keep_a_lease,
            leases::a_released_run_is_free_and_closed_to_its_last_holder,
            leases::knowing_the_epoch_is_not_holding_the_lease,
            claimable::open_runs_without_a_live_lease_are_claimable_oldest_first,
            claimable::a_run_is_claimable_when_its_lease_has_expired,
            claimable::an_ended_run_is_never_claimable,
            claimable::tenants_have_claimable_runs_of_their_own,
            mailbox::commands_are_taken_once_and_in_order,
            mailbox::a_mailbox_has_a_limit,
            mailbox::a_failed_commit_takes_no_mail,
            blobs::blobs_come_with_their_commit_and_twice_is_once,
            blobs::blobs_of_every_size_come_back,
            blobs::blobs_of_another_tenant_are_invisible,
            tables::runs_are_listed_newest_first_by_prefix,
            tables::agents_keep_their_terms_and_their_order,
            tables::agents_must_be_new_or_known,
            tables::tenants_do_not_see_each_other,
            removals::a_removed_run_is_gone_but_for_its_id_and_its_end,
            removals::a_run_that_is_open_is_not_removed,
            removals::a_removed_run_takes_nothing_of_others_along,
            tables::a_healthy_store_has_no_problems,
        }
    };
    (@each $world:expr; $($module:ident :: $name:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::conformance::$module::$name(&$world).await;
            }
        )*
    };
}
