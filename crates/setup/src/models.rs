//! The models of a process that carries runs: which there are, how they are reached, and which one is used when nobody
//! says so.
//!
//! Where a provider is and which key is sent there comes from the person: their settings file, their environment, their
//! flags. Nothing in the project is asked.

use std::path::Path;
use std::sync::Arc;

use posse::ports::Models as _;
use posse::{
    BaseUrl, GivenBaseUrl, Http, ModelRegistry, Provider, ProviderError, Providers, Proxy, ollama_models,
};

use crate::Setup;
use crate::environment::{HTTPS_PROXY, NO_PROXY};
use crate::error::{Remedy, SetupError};
use crate::notes::WithNotes;
use crate::settings::{Settings, WithOrigin};
use crate::text_models;

/// The provider whose models are script files.
pub const SCRIPTED: &str = "scripted/";
/// The provider that is tried if there is no key.
const OLLAMA: &str = "ollama";
/// The flag that says where a provider is.
pub const BASE_URL_FLAG: &str = "--base-url";
/// Never asked through a proxy.
const OWN_MACHINE: &str = "localhost,127.0.0.1,::1";
/// Variables that an error suggests to set.
const SUGGESTED: usize = 3;

/// The models of a process: providers as the settings and the environment have them, scripts by their path, and those
/// that the front end brings along.
pub fn catalog(
    settings: &Settings,
    given: Option<&GivenBaseUrl>,
    setup: &Setup,
) -> Result<ModelRegistry, SetupError> {
    let said = settings.providers.providers(&setup.environment.variables);
    let prices = settings.providers.prices(&said)?;
    let providers = match given {
        Some(given) => said.with_base_url(
            given.provider.clone(),
            BaseUrl { url: given.url.clone(), origin: BASE_URL_FLAG.to_owned() },
        ),
        None => said,
    };
    let models = ModelRegistry::new(&setup.environment.cwd)
        .providers(providers)
        .prices(prices)
        .http(http(settings, setup)?)
        .text_models(text_models::load(setup.state_dir()?));
    for (name, model) in setup.models() {
        models.insert(name.clone(), Arc::clone(model));
    }
    Ok(models)
}

/// The same for verbs that have no flags about models.
pub fn usual(setup: &Setup) -> Result<ModelRegistry, SetupError> {
    catalog(&Settings::own(&setup.environment)?, None, setup)
}

/// Where `--base-url` says that the provider of the named model is.
pub fn given(settings: &Settings, setup: &Setup) -> Result<Option<GivenBaseUrl>, SetupError> {
    let Some(WithOrigin { value: url, origin }) = &settings.base_url else { return Ok(None) };
    let Some(model) = &settings.model else {
        return Err(
            SetupError::usage(format!("{origin}: which model is there?")).remedy(Remedy::NameModelAtAddress)
        );
    };
    let said = settings.providers.providers(&setup.environment.variables);
    let split = said.split(&model.value, true);
    let (provider, _) = split.map_err(|error| problem(&model.origin.to_string(), &error))?;
    let base_url = BaseUrl { url: url.clone(), origin: origin.to_string() };
    let endpoint = said.with_base_url(provider.clone(), base_url).endpoint(&provider);
    let url = endpoint.map_err(|error| problem("", &error))?.base_url;
    Ok(Some(GivenBaseUrl { provider, url }))
}

/// The model of a run that names none: the first provider with a key, else what a local Ollama has. A note says which.
pub async fn choose(settings: &Settings, setup: &Setup) -> Result<WithNotes<String>, SetupError> {
    let providers = settings.providers.providers(&setup.environment.variables);
    if let Some((provider, model)) = providers.first_ready() {
        let key = providers.key_origin(provider.name).map_err(|error| problem("", &error))?;
        let key = key.unwrap_or_default();
        let note = format!(
            "model: {model} (there is a key: {key}); --model or `model` in the settings names another"
        );
        return Ok(WithNotes::noted(model, note));
    }
    let endpoint = providers.endpoint(OLLAMA).map_err(|error| problem("", &error))?;
    let http = http(settings, setup)?;
    match ollama_models(&endpoint, &http).await.as_deref() {
        Some([first, ..]) => {
            let note = format!(
                "model: {OLLAMA}/{first} (there is no key, and Ollama answers at {})",
                endpoint.base_url
            );
            Ok(WithNotes::noted(format!("{OLLAMA}/{first}"), note))
        }
        found => Err(no_model(&providers, found.is_some(), &endpoint.base_url)),
    }
}

fn no_model(providers: &Providers, ollama_answers: bool, place: &str) -> SetupError {
    let variables = Provider::all().iter().filter_map(|provider| provider.key_variables.first());
    let variables: Vec<&str> = variables.copied().take(SUGGESTED).collect();
    let ollama = if ollama_answers {
        format!("Ollama at {place} has no model: `ollama pull <model>`")
    } else {
        format!("no Ollama answers at {place}")
    };
    let without_default =
        providers.names().into_iter().find(|name| matches!(providers.key_origin(name), Ok(Some(_))));
    let error = match without_default {
        Some(name) => SetupError::usage(format!(
            "no model is named; there is a key for {name}, so write --model {name}/<model>"
        )),
        // What is missing is a key, as it is for a model that is named.
        None => SetupError::unauthenticated(format!(
            "no model is named, no key of a provider is set, and {ollama}"
        )),
    };
    error.remedy(Remedy::SetKeyOrModel(variables))
}

/// A problem with a provider; `origin` says where the name was written.
pub fn problem(origin: &str, error: &ProviderError) -> SetupError {
    let place = if origin.is_empty() { String::new() } else { format!("{origin}: ") };
    let message = format!("{place}{error}");
    if error.is_about_key() { SetupError::unauthenticated(message) } else { SetupError::usage(message) }
}

/// The first of two spellings of a variable that is set.
fn variable(names: [&'static str; 2], setup: &Setup) -> Option<(&'static str, String)> {
    let set = |name: &&str| {
        let found = setup.environment.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    names.iter().find_map(|name| Some((*name, set(name)?)))
}

/// The proxy of the environment: the variable, and what it says.
pub fn usual_proxy(setup: &Setup) -> Option<(&'static str, String)> {
    variable(HTTPS_PROXY, setup)
}

/// The HTTP of models: through the proxy of the settings, else that of the environment.
fn http(settings: &Settings, setup: &Setup) -> Result<Http, SetupError> {
    let said = settings.proxy.as_ref().map(|proxy| (proxy.origin.to_string(), proxy.value.clone()));
    let said = said.or_else(|| usual_proxy(setup).map(|(name, url)| (name.to_owned(), url)));
    let Some((origin, url)) = said else { return Ok(Http::new()) };
    let except = variable(NO_PROXY, setup).map_or_else(String::new, |(_, hosts)| format!(",{hosts}"));
    let proxy = Proxy { url, except: Some(format!("{OWN_MACHINE}{except}")) };
    // Not with what the library says: a proxy's address may have a password in it.
    Http::through(&proxy).map_err(|_| {
        SetupError::usage(format!("{origin}: this is not the address of a proxy"))
            .hint("it must look like http://host:3128")
    })
}

/// Finds a model, and gives the name under which any process finds it again: that of a provider's model is full, and a
/// script's path is made whole.
pub fn canonical_model(name: &str, base: &Path, models: &ModelRegistry) -> Result<String, String> {
    let script = name.strip_prefix(SCRIPTED).filter(|file| !file.is_empty());
    let Some(file) = script else {
        models.resolve(name)?;
        return models.full_name(name).map_err(|error| error.to_string());
    };
    // Loaded by the name that was typed, because errors call it so.
    let model = ModelRegistry::new(base).resolve(name)?;
    let path = base.join(file);
    let path = path.canonicalize().unwrap_or(path);
    let path = path.to_str().ok_or_else(|| format!("the path of {file} is not UTF-8 text"))?;
    let settled = format!("{SCRIPTED}{path}");
    models.insert(settled.clone(), model);
    Ok(settled)
}
