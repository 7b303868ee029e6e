//! Skills: a `SKILL.md` with front matter, or one YAML file.

use posse_domain::skill::Skill;

use super::reading::{Loaded, Reading};

/// Reads a skill from a `SKILL.md`. `folder` is the name of its folder, `dir` where that is, for the skill's files.
pub fn read_skill(_bytes: &[u8], _folder: &str, _dir: Option<&str>, _reading: &Reading<'_>) -> Loaded<Skill> {
    Loaded { value: None, warnings: Vec::new(), mentions: Vec::new() }
}

/// Reads a skill from YAML. `stem` is the file's name without its ending: the skill's name, if the text gives none.
pub fn read_yaml_skill(_bytes: &[u8], _stem: &str, _reading: &Reading<'_>) -> Loaded<Skill> {
    Loaded { value: None, warnings: Vec::new(), mentions: Vec::new() }
}
