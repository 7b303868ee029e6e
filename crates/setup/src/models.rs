//! Builds the registry of models for a process that executes runs, and chooses the default model.
//!
//! The address and the key of a provider come only from the user: their settings file, environment and flags. The
//! project has no influence.

use std::path::Path;
use std::sync::Arc;

use posse::ports::Models as _;
use posse::{
    BaseUrl, GivenBaseUrl, Http, ModelRegistry, Provider, ProviderError, Providers, Proxy, ollama_models,
};

use crate::Setup;
use crate::environment::{HTTPS_PROXY, NO_PROXY};
use crate::error::{Remedy, SetupError};
use crate::notes::{Note, WithNotes};
use crate::settings::{Settings, WithOrigin};
use crate::text_models;

/// The prefix of models that are script files.
pub const SCRIPTED: &str = "scripted/";
/// The provider that is tried if there is no key.
const OLLAMA: &str = "ollama";
/// The name of the origin of an address that a run was started with.
const BASE_URL_OF_RUN: &str = "the base URL of the run";
/// Never reached through a proxy.
const OWN_MACHINE: &str = "localhost,127.0.0.1,::1";
/// How many variables an error suggests.
const SUGGESTED: usize = 3;

/// The models that the settings of a directory offer: providers from settings and environment, scripts by their path,
/// and those that the front end provides. All registries of one `setup` share their provider queues.
pub fn registry(
    settings: &Settings,
    given: Option<&GivenBaseUrl>,
    setup: &Setup,
) -> Result<ModelRegistry, SetupError> {
    let providers = settings.providers.providers(&setup.environment.variables);
    let prices = settings.providers.prices(&providers)?;
    let providers = match given {
        Some(given) => providers.with_base_url(
            given.provider.clone(),
            BaseUrl { url: given.url.clone(), origin: BASE_URL_OF_RUN.to_owned() },
        ),
        None => providers,
    };
    let models = ModelRegistry::new(&setup.environment.cwd)
        .providers(providers)
        .prices(prices)
        .http(http(settings, setup)?)
        .provider_queues(setup.provider_queues())
        .text_models(text_models::load(setup.state_dir()?));
    for (name, model) in setup.models() {
        models.insert(name.clone(), Arc::clone(model));
    }
    Ok(models)
}

/// The same for front ends that start no run.
pub fn usual(setup: &Setup) -> Result<ModelRegistry, SetupError> {
    registry(&Settings::own(&setup.environment)?, None, setup)
}

/// The base URL of the named model's provider, if the request has one.
pub fn given(settings: &Settings, setup: &Setup) -> Result<Option<GivenBaseUrl>, SetupError> {
    let Some(WithOrigin { value: url, origin }) = &settings.base_url else { return Ok(None) };
    let Some(model) = &settings.model else {
        return Err(SetupError::usage(format!("{origin}: select a model for this address"))
            .remedy(Remedy::NameModelAtAddress));
    };
    if model.value.starts_with(SCRIPTED) {
        let problem = format!("{origin}: `{}` is a script, which has no address", model.value);
        let remedy = "leave out the address, or name a model of a provider; nothing was started";
        return Err(SetupError::usage(problem).remedy(Remedy::Hint(remedy.to_owned())));
    }
    let providers = settings.providers.providers(&setup.environment.variables);
    let split = providers.split(&model.value, true);
    let (provider, _) = split.map_err(|error| problem(&model.origin.to_string(), &error))?;
    let base_url = BaseUrl { url: url.clone(), origin: origin.to_string() };
    let endpoint = providers.with_base_url(provider.clone(), base_url).endpoint(&provider);
    let url = endpoint.map_err(|error| problem("", &error))?.base_url;
    Ok(Some(GivenBaseUrl { provider, url }))
}

/// The default model of a run: of the first provider with a key, else of a local Ollama. A note names it.
pub async fn choose(settings: &Settings, setup: &Setup) -> Result<WithNotes<String>, SetupError> {
    let providers = settings.providers.providers(&setup.environment.variables);
    if let Some((provider, model)) = providers.first_ready() {
        let key = providers.key_origin(provider.name).map_err(|error| problem("", &error))?;
        let key = key.unwrap_or_default();
        let note = Note::choice(format!("using {model} (key from {key})"));
        return Ok(WithNotes::noted(model, note.remedy(Remedy::NameOtherModel)));
    }
    let endpoint = providers.endpoint(OLLAMA).map_err(|error| problem("", &error))?;
    let http = http(settings, setup)?;
    match ollama_models(&endpoint, &http).await.as_deref() {
        Some([first, ..]) => {
            let text = format!(
                "using {OLLAMA}/{first} (no API key is set, and Ollama runs at {})",
                endpoint.base_url
            );
            Ok(WithNotes::noted(format!("{OLLAMA}/{first}"), Note::choice(text)))
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
        format!("Ollama does not run at {place}")
    };
    let without_default =
        providers.names().into_iter().find(|name| matches!(providers.key_origin(name), Ok(Some(_))));
    match without_default {
        Some(name) => SetupError::usage(format!("no model is selected; there is a key for {name}"))
            .remedy(Remedy::NameModelOf(name.to_owned())),
        // A key is missing, as for a named model.
        None => SetupError::unauthenticated(format!("no model is selected, no API key is set, and {ollama}"))
            .remedy(Remedy::SetKeyOrModel(variables)),
    }
}

/// The error for a provider's problem. `origin` is where the name was written.
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

/// The proxy of the environment: the variable and its value.
pub fn usual_proxy(setup: &Setup) -> Option<(&'static str, String)> {
    variable(HTTPS_PROXY, setup)
}

/// The HTTP client of models, through the proxy of the settings, else that of the environment.
pub(crate) fn http(settings: &Settings, setup: &Setup) -> Result<Http, SetupError> {
    let proxy = settings.proxy.as_ref().map(|proxy| (proxy.origin.to_string(), proxy.value.clone()));
    let proxy = proxy.or_else(|| usual_proxy(setup).map(|(name, url)| (name.to_owned(), url)));
    let Some((origin, url)) = proxy else { return Ok(Http::new()) };
    let except = variable(NO_PROXY, setup).map_or_else(String::new, |(_, hosts)| format!(",{hosts}"));
    let proxy = Proxy { url, except: Some(format!("{OWN_MACHINE}{except}")) };
    // Without the library's error: a proxy's address may contain a password.
    Http::through(&proxy).map_err(|_| {
        SetupError::usage(format!("{origin}: not the address of a proxy"))
            .hint("expected an address such as http://host:3128")
    })
}

/// Resolves a model and returns a name that works in any process: the full name of a provider's model, or a script's
/// absolute path.
pub fn canonical_model(name: &str, base: &Path, models: &ModelRegistry) -> Result<String, String> {
    let script = name.strip_prefix(SCRIPTED).filter(|file| !file.is_empty());
    let Some(file) = script else {
        models.resolve(name).map_err(|error| error.to_string())?;
        return models.full_name(name).map_err(|error| error.to_string());
    };
    // Loaded by the typed name, because errors use it.
    let model = ModelRegistry::new(base).resolve(name).map_err(|error| error.to_string())?;
    let path = base.join(file);
    let path = path.canonicalize().unwrap_or(path);
    let path = path.to_str().ok_or_else(|| format!("the path of {file} is not UTF-8 text"))?;
    let settled = format!("{SCRIPTED}{path}");
    models.insert(settled.clone(), model);
    Ok(settled)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    use posse::ports::{Admission, CallSize, Model, ModelRequest, Notice, StreamPart, StreamSink};
    use posse_domain::event::Purpose;
    use posse_domain::hash::Hash;

    use super::*;
    use crate::Environment;

    const SIZE: CallSize = CallSize { input_tokens: 10, output_tokens: 10 };
    const LIMITED: &[u8] =
        b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 60\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

    struct NullSink;

    impl StreamSink for NullSink {
        fn part(&self, _: StreamPart) {}
    }

    fn request() -> ModelRequest {
        ModelRequest {
            agent: "k3f9ab2c".parse().expect("an id"),
            definition: "coder".into(),
            depth: 0,
            attempt: 1,
            turn: 1,
            call: 1,
            hash: Hash::ZERO,
            purpose: Purpose::Work,
            system: "You work.".into(),
            tools: Arc::new([]),
            messages: Vec::new(),
            max_output_tokens: 10,
            temperature: None,
            top_p: None,
            tags: Arc::default(),
        }
    }

    /// A provider that answers one call with a pause of a minute; returns its address.
    fn limiting_provider() -> (String, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut head = [0; 16 * 1024];
            assert!(stream.read(&mut head).expect("a request") > 0);
            stream.write_all(LIMITED).expect("answered");
            // Until the client has closed it: unread bytes would reset the connection.
            while stream.read(&mut head).is_ok_and(|read| read > 0) {}
        });
        (address, answering)
    }

    fn notice(model: &Arc<dyn Model>) -> Option<Notice> {
        match model.admit(SIZE) {
            Admission::Go(_) => None,
            Admission::Wait(queued) => queued.notice,
        }
    }

    #[tokio::test]
    async fn registries_of_one_setup_share_the_queues_of_providers() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().to_owned();
        let (url, answering) = limiting_provider();
        let given = GivenBaseUrl { provider: "openai-compatible".to_owned(), url };
        let setup = || {
            let variables = [(OsString::from("HOME"), OsString::from(&home))];
            Setup::new(Environment::new(home.clone(), variables))
        };
        let model = |setup: &Setup| {
            let registry = super::registry(&Settings::default(), Some(&given), setup).expect("a registry");
            registry.resolve("openai-compatible/small").expect("a model")
        };
        let one = setup();
        let (first, second) = (model(&one), model(&one));
        assert_eq!(notice(&second), None);
        let failure = first.call(request(), Arc::new(NullSink)).await.expect_err("a rate limit");
        assert!(failure.retry.is_some_and(|retry| retry.limited), "{failure:?}");
        answering.join().expect("answered");
        let pause = notice(&second).expect("the pause counts for every registry");
        assert!(pause.expected.as_secs() > 30, "{pause:?}");
        assert!(notice(&model(&one)).is_some(), "also for one that is made after it");
        assert_eq!(notice(&model(&setup())), None, "another setup has queues of its own");
    }
}
