//! How large a plan may be. Most of these are also what a `task` call may say of a child.

/// Most steps.
pub const STEPS_MAX: usize = 200;
/// Longest goal.
pub const GOAL_MAX_BYTES: usize = 64 * 1024;
/// Longest title of a step.
pub const TITLE_MAX_CHARS: usize = 120;
/// Longest description of a step.
pub const DESCRIPTION_MAX_BYTES: usize = 256 * 1024;
/// Longest name of a definition, a tool or a model.
pub const NAME_MAX_BYTES: usize = 200;
/// Most paths that a step owns.
pub const OWNS_MAX: usize = 100;
/// Longest path that a step owns.
pub const OWNED_MAX_BYTES: usize = 4_096;
/// Most success criteria of a step.
pub const CRITERIA_MAX: usize = 50;
/// Longest success criterion.
pub const CRITERION_MAX_BYTES: usize = 8 * 1024;
/// Most tools that a step names.
pub const TOOLS_MAX: usize = 100;
/// Most further attempts of a step.
pub const RETRIES_MAX: u32 = 10;
/// Longest attempt: a week.
pub const TIMEOUT_MAX_MS: u64 = 7 * 24 * 3_600_000;
/// Longest command of a criterion: an hour.
pub const COMMAND_TIMEOUT_MAX_MS: u64 = 3_600_000;
/// Most problems of a plan that are told; more would help nobody.
pub const PROBLEMS_MAX: usize = 100;
