//! Giving memory back to the system.
//!
//! Why it is like this: `docs/decisions/memory-trim.md`.

/// Hands freed memory back to the system, where the allocator keeps it otherwise.
///
/// A tree of ten thousand agents leaves its memory scattered over the allocator's pages; without this a service
/// that once ran such a tree would stay that large for ever. Costs some milliseconds: call it after large trees.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the C library has no safe wrapper for this call")]
    // SAFETY: `malloc_trim` takes no pointer and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
