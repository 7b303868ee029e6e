//! The models of a process that carries runs: which there are, how they are reached, and which one is used when nobody
//! says so.
//!
//! Where a provider is and which key is sent there comes from the person: their settings file, their environment, their
//! flags. Nothing in the project is asked.

use posse::{
    BaseUrl, GivenBaseUrl, Http, ModelRegistry, Provider, ProviderError, Providers, Proxy, ollama_models,
};

use crate::commands::demo;
use crate::context::Context;
use crate::env::{HTTPS_PROXY, NO_PROXY};
use crate::error::CliError;
use crate::output::note;
use crate::runtime;
use crate::settings::{Settings, WithOrigin};
use crate::text_models;

/// The provider that is tried if there is no key.
const OLLAMA: &str = "ollama";
/// The flag that says where a provider is.
pub(crate) const BASE_URL_FLAG: &str = "--base-url";
/// Never asked through a proxy.
const OWN_MACHINE: &str = "localhost,127.0.0.1,::1";
/// Variables that an error suggests to set.
const SUGGESTED: usize = 3;

/// The models of a process: providers as the settings and the environment have them, scripts by their path, the demo's.
pub(crate) fn catalog(
    settings: &Settings,
    given: Option<&GivenBaseUrl>,
    context: &Context,
) -> Result<ModelRegistry, CliError> {
    let said = settings.providers.providers(&context.environment.variables);
    let prices = settings.providers.prices(&said)?;
    let providers = match given {
        Some(given) => said.with_base_url(
            given.provider.clone(),
            BaseUrl { url: given.url.clone(), origin: BASE_URL_FLAG.to_owned() },
        ),
        None => said,
    };
    let models = ModelRegistry::new(&context.environment.cwd)
        .providers(providers)
        .prices(prices)
        .http(http(settings, context)?)
        .text_models(text_models::load(context.state_dir()?));
    for (name, model) in demo::models() {
        models.insert(name, model);
    }
    Ok(models)
}

/// The same for verbs that have no flags about models.
pub(crate) fn usual(context: &Context) -> Result<ModelRegistry, CliError> {
    catalog(&Settings::own(&context.environment)?, None, context)
}

/// Where `--base-url` says that the provider of the named model is.
pub(crate) fn given(settings: &Settings, context: &Context) -> Result<Option<GivenBaseUrl>, CliError> {
    let Some(WithOrigin { value: url, origin }) = &settings.base_url else { return Ok(None) };
    let Some(model) = &settings.model else {
        return Err(CliError::usage(format!("{origin}: which model is there?"))
            .hint("name it with --model, for example --model openai-compatible/<name>"));
    };
    let said = settings.providers.providers(&context.environment.variables);
    let split = said.split(&model.value, true);
    let (provider, _) = split.map_err(|error| problem(&model.origin.to_string(), &error))?;
    let base_url = BaseUrl { url: url.clone(), origin: origin.to_string() };
    let endpoint = said.with_base_url(provider.clone(), base_url).endpoint(&provider);
    let url = endpoint.map_err(|error| problem("", &error))?.base_url;
    Ok(Some(GivenBaseUrl { provider, url }))
}

/// The model of a run that names none: the first provider with a key, else what a local Ollama has. Said on screen.
pub(crate) fn choose(settings: &Settings, context: &Context) -> Result<String, CliError> {
    let providers = settings.providers.providers(&context.environment.variables);
    if let Some((provider, model)) = providers.first_ready() {
        let key = providers.key_origin(provider.name).map_err(|error| problem("", &error))?;
        let key = key.unwrap_or_default();
        note(&format!(
            "model: {model} (there is a key: {key}); --model or `model` in the settings names another"
        ));
        return Ok(model);
    }
    let endpoint = providers.endpoint(OLLAMA).map_err(|error| problem("", &error))?;
    let http = http(settings, context)?;
    let found = runtime::looking(async { Ok(ollama_models(&endpoint, &http).await) })?;
    match found.as_deref() {
        Some([first, ..]) => {
            note(&format!(
                "model: {OLLAMA}/{first} (there is no key, and Ollama answers at {})",
                endpoint.base_url
            ));
            Ok(format!("{OLLAMA}/{first}"))
        }
        found => Err(no_model(&providers, found.is_some(), &endpoint.base_url)),
    }
}

fn no_model(providers: &Providers, ollama_answers: bool, place: &str) -> CliError {
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
        Some(name) => CliError::usage(format!(
            "no model is named; there is a key for {name}, so write --model {name}/<model>"
        )),
        // What is missing is a key, as it is for a model that is named.
        None => {
            CliError::unauthenticated(format!("no model is named, no key of a provider is set, and {ollama}"))
        }
    };
    error.hint(format!(
        "set {} or another provider's key, or name a model with --model provider/name; `posse doctor` lists the \
         providers, and `posse demo` needs none",
        variables.join(", ")
    ))
}

/// A problem with a provider as an error of the command; `origin` says where the name was written.
pub(crate) fn problem(origin: &str, error: &ProviderError) -> CliError {
    let place = if origin.is_empty() { String::new() } else { format!("{origin}: ") };
    let message = format!("{place}{error}");
    if error.is_about_key() { CliError::unauthenticated(message) } else { CliError::usage(message) }
}

/// The first of two spellings of a variable that is set.
fn variable(names: [&'static str; 2], context: &Context) -> Option<(&'static str, String)> {
    let set = |name: &&str| {
        let found = context.environment.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    names.iter().find_map(|name| Some((*name, set(name)?)))
}

/// The proxy of the environment: the variable, and what it says.
pub(crate) fn usual_proxy(context: &Context) -> Option<(&'static str, String)> {
    variable(HTTPS_PROXY, context)
}

/// The HTTP of models: through the proxy of the settings, else that of the environment.
fn http(settings: &Settings, context: &Context) -> Result<Http, CliError> {
    let said = settings.proxy.as_ref().map(|proxy| (proxy.origin.to_string(), proxy.value.clone()));
    let said = said.or_else(|| usual_proxy(context).map(|(name, url)| (name.to_owned(), url)));
    let Some((origin, url)) = said else { return Ok(Http::new()) };
    let except = variable(NO_PROXY, context).map_or_else(String::new, |(_, hosts)| format!(",{hosts}"));
    let proxy = Proxy { url, except: Some(format!("{OWN_MACHINE}{except}")) };
    // Not with what the library says: a proxy's address may have a password in it.
    Http::through(&proxy).map_err(|_| {
        CliError::usage(format!("{origin}: this is not the address of a proxy"))
            .hint("it must look like http://host:3128")
    })
}
