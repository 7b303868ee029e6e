//! Lists providers with the keys that were found, the models with known prices, and the short names of models.

use posse::api::{KnownModel, ModelAlias, ModelList, ModelProvider};
use posse::{PricedModel, Provider, Providers, Usd, prices_taken};

use crate::Setup;
use crate::error::SetupError;
use crate::settings::Settings;

/// What the user's settings and environment offer.
pub fn list(setup: &Setup) -> Result<ModelList, SetupError> {
    let settings = Settings::own(&setup.environment)?;
    let providers = settings.providers.providers(&setup.environment.variables);
    let prices = settings.providers.prices(&providers)?;
    let alias = |(name, model): (&str, &str)| ModelAlias { name: name.to_owned(), model: model.to_owned() };
    Ok(ModelList {
        providers: providers.names().into_iter().map(|name| provider(name, &providers)).collect(),
        models: prices.known().into_iter().map(known).collect(),
        aliases: providers.aliases().into_iter().map(alias).collect(),
        prices_taken: prices_taken().to_owned(),
    })
}

fn provider(name: &str, providers: &Providers) -> ModelProvider {
    let endpoint = providers.endpoint(name);
    ModelProvider {
        name: name.to_owned(),
        usable: endpoint.is_ok(),
        key: providers.key_origin(name).ok().flatten(),
        problem: endpoint.err().map(|error| error.to_string()),
        default_model: Provider::find(name).and_then(|known| known.default_model).map(str::to_owned),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a price has far fewer digits than a float")]
fn known(model: PricedModel) -> KnownModel {
    let dollars = |usd: Usd| usd.micros() as f64 / 1_000_000.0;
    KnownModel {
        input_usd: dollars(model.price.input),
        output_usd: dollars(model.price.output),
        context_tokens: model.context_tokens,
        name: model.name,
    }
}
