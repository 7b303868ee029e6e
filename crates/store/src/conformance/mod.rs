//! What every store must do, one function per guarantee. Each panics with what was promised and not kept.
//!
//! A store's tests give a [`World`] to [`conformance_tests!`](crate::conformance_tests):
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use posse_engine::ports::Store;
//! use posse_store::MemoryStore;
//! use posse_store::conformance::{World, commits};
//!
//! struct Memory(MemoryStore);
//!
//! impl World for Memory {
//!     fn open(&self, lease: Duration) -> Arc<dyn Store> {
//!         Arc::new(self.0.another_process().with_lease(lease))
//!     }
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! commits::numbers_have_no_gaps(&Memory(MemoryStore::default())).await;
//! # });
//! ```
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a suite says what is wrong by panicking")]

pub mod blobs;
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

/// A lease that no check outlives.
pub(crate) const LONG: Duration = Duration::from_hours(1);

/// One set of data. Every handle stands for a process that shares it.
pub trait World: Send + Sync {
    /// Another process, whose leases last `lease`. Dropping it is its death.
    fn open(&self, lease: Duration) -> Arc<dyn Store>;
}

/// Makes one test per guarantee. The expression gives a fresh [`World`](crate::conformance::World) each time.
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
            watches::watchers_hear_of_commits_here_and_elsewhere,
            watches::watchers_hear_of_mail,
            watches::watchers_may_come_before_the_run,
            watches::nothing_is_missed_or_repeated_over_disconnects,
            leases::only_one_of_many_claims_is_granted,
            leases::epochs_grow_with_every_owner,
            leases::who_lost_a_run_is_fenced,
            leases::a_dead_owner_is_replaced_at_once,
            leases::a_silent_owner_is_replaced_after_its_lease,
            leases::heartbeats_keep_a_lease,
            leases::commits_keep_a_lease,
            leases::a_released_run_is_free_and_closed_to_its_owner,
            leases::knowing_the_epoch_is_not_owning_the_run,
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
