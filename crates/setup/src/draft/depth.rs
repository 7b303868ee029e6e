//! Computes the depth of a run from settings, the request and its skill.

use posse_domain::budget::{DEFAULT_MAX_ORCHESTRATION_DEPTH, effective_max_depth};
use posse_domain::skill::Skill;

use crate::notes::{Note, Notes};
use crate::settings::{Origin, Settings, WithOrigin};

/// The depth of the run: the request's, else its skill's, else the settings', and never more than the operator's
/// ceiling. A note reports a requested depth above the ceiling.
pub(super) fn max_depth(settings: &Settings, skill: Option<&Skill>, notes: &mut Notes) -> u32 {
    let is_asked = |depth: &&WithOrigin<u32>| matches!(depth.origin, Origin::Request(_));
    let asked = settings.max_depth.as_ref().filter(is_asked);
    let asked = asked.map(|depth| (depth.origin.to_string(), depth.value)).or_else(|| {
        skill.and_then(|skill| Some((format!("max-depth of the skill `{}`", skill.name), skill.max_depth?)))
    });
    let ceiling = settings.max_orchestration_depth.as_ref();
    let most = ceiling.map_or(DEFAULT_MAX_ORCHESTRATION_DEPTH, |ceiling| ceiling.value);
    if let Some((origin, depth)) = asked.as_ref().filter(|(_, depth)| *depth > most) {
        let place = ceiling.map(|ceiling| format!(" ({})", ceiling.origin)).unwrap_or_default();
        notes.push(Note::info(format!(
            "{origin} {depth} is more than agent.max_orchestration_depth allows{place}: {most} is used"
        )));
    }
    effective_max_depth(
        asked.map(|(_, depth)| depth),
        settings.max_depth.as_ref().map(|depth| depth.value),
        ceiling.map(|ceiling| ceiling.value),
    )
}
