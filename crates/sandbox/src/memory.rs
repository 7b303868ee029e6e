//! Returns freed memory to the system.
//!
//! Why it is like this: `docs/decisions/memory-trim.md`.

/// Returns freed memory to the system, which the allocator would keep otherwise.
///
/// A tree of ten thousand agents leaves its memory scattered over the allocator's pages. Without this, a service that
/// once ran such a tree would stay that large forever. Costs some milliseconds: call it after large trees.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the C library has no safe wrapper for this call")]
    // SAFETY: `malloc_trim` takes no pointer and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
