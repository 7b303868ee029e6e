//! Size limits of a plan. Most of them also apply to a `task` call.

pub const STEPS_MAX: usize = 200;
pub const GOAL_MAX_BYTES: usize = 64 * 1024;
/// Maximum length of the title of a step or a child.
pub const TITLE_MAX_CHARS: usize = 120;
pub const DESCRIPTION_MAX_BYTES: usize = 256 * 1024;
/// Maximum length of the name of a definition, a tool or a model.
pub const NAME_MAX_BYTES: usize = 200;
/// Maximum number of ownership patterns of a step.
pub const OWNS_MAX: usize = 100;
/// Maximum length of an ownership pattern.
pub const OWNED_MAX_BYTES: usize = 4_096;
pub const CRITERIA_MAX: usize = 50;
pub const CRITERION_MAX_BYTES: usize = 8 * 1024;
pub const TOOLS_MAX: usize = 100;
/// Maximum number of further attempts of a step.
pub const RETRIES_MAX: u32 = 10;
/// Maximum timeout of an attempt: a week.
pub const TIMEOUT_MAX_MS: u64 = 7 * 24 * 3_600_000;
/// Maximum timeout of a criterion's command: an hour.
pub const COMMAND_TIMEOUT_MAX_MS: u64 = 3_600_000;
/// Maximum number of reported problems. More would not help.
pub const PROBLEMS_MAX: usize = 100;
