//! Checks limits on money, which need the prices of models.

use std::path::Path;

use posse::ports::Models as _;
use posse::{Definition, ModelRegistry};
use posse_domain::budget::price_entry;
use posse_domain::skill::Skill;

use crate::Setup;
use crate::error::{Remedy, SetupError};
use crate::limit::MoneyLimit;
use crate::notes::{Note, Notes, WithNotes};
use crate::settings::{Origin, Settings, WithOrigin};

/// Limit of definitions and skills that a note names.
const NAMED_MAX: usize = 3;

/// The money limit of a run in `dir`. It needs the price of every model that is `sure` to be used, before anything is
/// spent. A limit that is only in untrusted files stops nothing: if it cannot be enforced, a note names it and it does
/// not apply.
pub fn held(
    settings: &Settings,
    sure: &[String],
    models: &ModelRegistry,
    setup: &Setup,
    dir: &Path,
) -> Result<WithNotes<Option<WithOrigin<MoneyLimit>>>, SetupError> {
    let Some(limit) = limiting(settings) else { return Ok(WithNotes::silent(None)) };
    let Some(name) = unpriced(sure, models)? else { return Ok(WithNotes::silent(Some(limit))) };
    let binding = match limit.origin {
        Origin::File { .. } => limiting(&Settings::resolve_trusted(setup, dir)?),
        Origin::Variable(_) | Origin::Request(_) => Some(limit.clone()),
    };
    if let Some(WithOrigin { origin, .. }) = binding {
        let message =
            format!("{origin}: the price of `{name}` is unknown, so a limit in dollars cannot be enforced");
        let can_have_one =
            settings.providers.providers(&setup.environment.variables).split(name, false).is_ok();
        let entry = can_have_one.then(|| price_entry(name));
        return Err(SetupError::usage(message).remedy(Remedy::SetPrice(entry)));
    }
    let WithOrigin { origin, .. } = limit;
    let text = format!(
        "{origin}: the price of `{name}` is unknown, so this limit in dollars is not enforced; you have not trusted the file"
    );
    Ok(WithNotes::noted(None, Note::warning(text).remedy(Remedy::LimitTokens)))
}

fn limiting(settings: &Settings) -> Option<WithOrigin<MoneyLimit>> {
    settings.max_usd.clone().filter(|limit| limit.value.0.is_some())
}

/// The first model without a known price.
fn unpriced<'a>(names: &'a [String], models: &ModelRegistry) -> Result<Option<&'a str>, SetupError> {
    for name in names {
        let model =
            models.resolve(name).map_err(|problem| SetupError::usage(format!("{name}: {problem}")))?;
        if model.facts().price.is_none() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Notes about definitions and skills that agents of the run may name but will be refused, because the price of their
/// model is unknown.
pub fn unpriced_notes<'a>(
    limit: &Origin,
    definitions: impl Iterator<Item = &'a Definition>,
    skills: &'a [Skill],
    models: &ModelRegistry,
) -> Notes {
    let definitions = definitions.map(|own| (own.name.as_str(), own.model.as_deref()));
    let forked = skills.iter().filter(|skill| skill.fork);
    let skills = forked.map(|skill| (skill.name.as_str(), skill.model.as_deref()));
    let is_unpriced = |model: &str| models.resolve(model).is_ok_and(|model| model.facts().price.is_none());
    let unusable: Vec<String> = definitions
        .chain(skills)
        .filter_map(|(name, model)| Some((name, model.filter(|model| is_unpriced(model))?)))
        .map(|(name, model)| format!("`{name}` ({model})"))
        .collect();
    if unusable.is_empty() {
        return Notes::none();
    }
    let named = unusable.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match unusable.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!(
        "{limit}: the price of their model is unknown, so these cannot be used with a limit in dollars: {named}{more}"
    );
    Notes::from_iter([Note::info(text)])
}
