//! Prices and token limits of models, as far as they are known: a table in the program (`prices.yaml`), overridden by
//! the user's settings. Unknown values are not guessed: an unknown price is `None`.
//!
//! Why it is like this: `docs/decisions/budget-prices.md`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use posse_domain::budget::{Price, Usd};
use posse_domain::nearest::nearest;
use posse_engine::ports::ModelFacts;
use serde::Deserialize;

const TABLE: &str = include_str!("prices.yaml");
/// Context of an unknown model.
const UNKNOWN_CONTEXT_TOKENS: u64 = 128_000;
/// Context of an unknown model on the user's machine, where memory limits it.
const LOCAL_CONTEXT_TOKENS: u64 = 32_000;
/// Longest reply of an unknown model.
const UNKNOWN_OUTPUT_TOKENS: u64 = 8_192;

static KNOWN: LazyLock<Table> = LazyLock::new(|| {
    // The table is part of the program, and a test parses it.
    serde_saphyr::from_str(TABLE).unwrap_or_default()
});

/// A price as users write it: dollars for a million tokens. Only input and output are required. Cache and thinking
/// tokens cost the same as other tokens unless they have their own price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTag {
    /// Input that was not in a cache.
    pub input: Usd,
    pub output: Usd,
    /// Input read from a cache.
    #[serde(default)]
    pub cache_read: Option<Usd>,
    /// Input written to a cache.
    #[serde(default)]
    pub cache_write: Option<Usd>,
    /// Output that is thinking.
    #[serde(default)]
    pub reasoning: Option<Usd>,
}

impl From<PriceTag> for Price {
    fn from(tag: PriceTag) -> Self {
        // `Price` counts in millionths of a dollar for a million tokens.
        let plain = Price::plain(tag.input.micros(), tag.output.micros());
        Price {
            cached: tag.cache_read.map_or(plain.cached, Usd::micros),
            cache_write: tag.cache_write.map_or(plain.cache_write, Usd::micros),
            reasoning: tag.reasoning.map_or(plain.reasoning, Usd::micros),
            ..plain
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    taken: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "for people, and for the test that reads the table"))]
    currency: String,
    models: BTreeMap<String, PriceRow>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    input: Usd,
    output: Usd,
    #[serde(default)]
    cache_read: Option<Usd>,
    #[serde(default)]
    cache_write: Option<Usd>,
    #[serde(default)]
    reasoning: Option<Usd>,
    context: u64,
    max_output: u64,
}

impl PriceRow {
    fn tag(self) -> PriceTag {
        let PriceRow { input, output, cache_read, cache_write, reasoning, .. } = self;
        PriceTag { input, output, cache_read, cache_write, reasoning }
    }
}

/// The user's own prices, by full name.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    own: BTreeMap<String, PriceTag>,
}

impl Prices {
    /// Prices that override the table, each under its full name, `provider/model`.
    pub fn new(own: impl IntoIterator<Item = (String, PriceTag)>) -> Self {
        Self { own: own.into_iter().collect() }
    }

    pub fn len(&self) -> usize {
        self.own.len()
    }

    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// The known facts about a model. A model on the user's own machine costs nothing unless the user sets a price.
    pub(crate) fn look_up(&self, provider: &str, model: &str, is_local: bool) -> ModelFacts {
        let name = format!("{provider}/{model}");
        let sheet = sheet(&name);
        let own = self.own.get(&name).copied().map(Price::from);
        let price = own.or(sheet.map(|sheet| sheet.tag().into())).or(is_local.then(|| Price::plain(0, 0)));
        let context_tokens = if is_local { LOCAL_CONTEXT_TOKENS } else { UNKNOWN_CONTEXT_TOKENS };
        ModelFacts {
            context_tokens: sheet.map_or(context_tokens, |sheet| sheet.context),
            max_output_tokens: sheet.map_or(UNKNOWN_OUTPUT_TOKENS, |sheet| sheet.max_output),
            price,
        }
    }
}

/// A model with a known price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PricedModel {
    /// The full name, `provider/model`.
    pub name: String,
    pub price: PriceTag,
    /// How many tokens a conversation may have; `None` if that is not known.
    pub context_tokens: Option<u64>,
}

impl Prices {
    /// All models with a price, by name: those of the table, with the user's prices, and the user's own.
    pub fn known(&self) -> Vec<PricedModel> {
        let table = KNOWN.models.iter().map(|(name, row)| (name, row.tag()));
        let mut prices: BTreeMap<&String, PriceTag> = table.collect();
        prices.extend(self.own.iter().map(|(name, tag)| (name, *tag)));
        let model = |(name, price): (&String, PriceTag)| PricedModel {
            name: name.clone(),
            price,
            context_tokens: sheet(name).map(|row| row.context),
        };
        prices.into_iter().map(model).collect()
    }
}

/// The date of the prices in the table, such as `2026-10-09`.
pub fn prices_taken() -> &'static str {
    &KNOWN.taken
}

/// The provider of a model, if the table lists the model under exactly one provider.
pub(crate) fn provider_of(model: &str) -> Option<&'static str> {
    let model = undated(model);
    let mut owners =
        KNOWN.models.keys().filter_map(|name| name.split_once('/')).filter(|(_, known)| *known == model);
    let (owner, _) = owners.next()?;
    owners.next().is_none().then_some(owner)
}

/// The known model that was probably meant, by its full name.
pub(crate) fn nearest_model(name: &str) -> Option<&'static str> {
    let names = || KNOWN.models.keys().map(String::as_str);
    if let Some((provider, _)) = name.split_once('/') {
        let others = names().filter(|other| *other != name);
        return nearest(
            name,
            others.filter(|other| other.split_once('/').is_some_and(|(own, _)| own == provider)),
        );
    }
    let models = names().filter_map(|full| full.split_once('/')).map(|(_, model)| model);
    let near = nearest(name, models)?;
    names().find(|full| full.split_once('/').is_some_and(|(_, model)| model == near))
}

fn sheet(name: &str) -> Option<&'static PriceRow> {
    KNOWN.models.get(name).or_else(|| KNOWN.models.get(undated(name)))
}

/// A name without its release date. Dated models cost the same as their family.
fn undated(name: &str) -> &str {
    let is_number =
        |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((start, end)) = name.rsplit_once(['-', '@'])
        && is_number(end, 8)
    {
        return start;
    }
    let mut parts = name.rsplitn(4, '-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(day), Some(month), Some(year), Some(start))
            if is_number(day, 2) && is_number(month, 2) && is_number(year, 4) =>
        {
            start
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests;
