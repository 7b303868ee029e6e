//! Names, endpoints, keys, and the errors if one is missing.

use super::*;
use crate::endpoint::Key;
use crate::prices;

fn providers(variables: &[(&str, &str)]) -> Providers {
    Providers::new([], variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn with_words(name: &str, words: ProviderWords) -> Providers {
    Providers::new([(name.to_owned(), words)], [])
}

fn at(url: &str) -> BaseUrl {
    BaseUrl { url: url.to_owned(), origin: "--base-url".to_owned() }
}

#[test]
fn every_row_of_the_table_is_whole() {
    for provider in Provider::all() {
        let name = provider.name;
        let named = |other: &&Provider| other.name == name || other.aliases.contains(&name);
        assert_eq!(Provider::all().iter().filter(named).count(), 1, "{name} is there twice");
        if let Some(url) = provider.base_url {
            assert_eq!(address::base_url(url, provider.format).as_deref(), Ok(url), "{name}");
        }
        assert_eq!(provider.key == KeyNeed::Needed, !provider.key_variables.is_empty(), "{name}");
        if let Some(model) = provider.default_model {
            let price = prices::Prices::default().look_up(name, model, false).price;
            assert!(price.is_some(), "{name}/{model} has no price: no limit in dollars holds for it");
        }
    }
    for (_, owner) in table::FAMILIES {
        assert!(Provider::find(owner).is_some(), "{owner}");
    }
}

#[test]
fn a_name_is_split_at_its_first_slash_and_a_bare_one_by_its_family() {
    let none = providers(&[]);
    for (name, provider, model) in [
        ("anthropic/claude-opus-5-5", "anthropic", "claude-opus-5-5"),
        ("openrouter/anthropic/claude-sonnet-5.5", "openrouter", "anthropic/claude-sonnet-5.5"),
        ("google/gemini-3.8-flash", "gemini", "gemini-3.8-flash"),
        ("llama.cpp/any", "llamacpp", "any"),
        ("claude-opus-9", "anthropic", "claude-opus-9"),
        ("gpt-6.1-sol", "openai", "gpt-6.1-sol"),
        ("o3-mini", "openai", "o3-mini"),
        ("grok-4.5", "xai", "grok-4.5"),
        ("mistral-small-latest", "mistral", "mistral-small-latest"),
        ("claude-haiku-4-5-20251001", "anthropic", "claude-haiku-4-5-20251001"),
    ] {
        let split = none.split(name, false).expect(name);
        assert_eq!((split.0.as_str(), split.1.as_str()), (provider, model), "{name}");
    }
}

#[test]
fn with_a_base_url_a_name_that_nobody_knows_is_a_model_there() {
    let none = providers(&[]);
    for name in ["qwen3:8b", "Qwen/Qwen3-8B", "mistralai/Mistral-7B", "deepseek-ai/DeepSeek-V4"] {
        let split = none.split(name, true).expect(name);
        assert_eq!((split.0.as_str(), split.1.as_str()), ("openai-compatible", name));
        assert!(none.split(name, false).is_err(), "{name}");
    }
    assert_eq!(none.split("claude-x", true).expect("split").0, "anthropic");
}

#[test]
fn unknown_names_come_with_the_nearest() {
    let none = providers(&[]);
    for (name, parts) in [
        ("opnai/gpt-5", ["unknown provider `opnai`", "did you mean `openai`?"]),
        ("sonnet-5-5", ["unknown model `sonnet-5-5`", "ollama/sonnet-5-5"]),
        ("claud-opus-5-5", ["unknown model", "did you mean `anthropic/claude-opus-5-5`?"]),
        ("anthropic/", ["names no model", "`anthropic/claude-sonnet-5-5`"]),
        ("openai", ["names no model", "openai/<model>"]),
    ] {
        let error = none.split(name, false).expect_err(name).to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{name}: {error}");
    }
}

#[test]
fn an_endpoint_is_made_of_the_table_the_environment_the_settings_and_the_flag() {
    let from = |providers: &Providers, name: &str| providers.endpoint(name).map(|endpoint| endpoint.base_url);
    let keyed = [("ANTHROPIC_API_KEY", "sk-a"), ("OPENAI_API_KEY", "sk-o")];
    assert_eq!(from(&providers(&keyed), "anthropic").as_deref(), Ok("https://api.anthropic.com"));
    assert_eq!(from(&providers(&keyed), "openai").as_deref(), Ok("https://api.openai.com/v1"));
    let elsewhere = [keyed[0], ("ANTHROPIC_BASE_URL", "https://proxy.example/v1")];
    let said = providers(&elsewhere);
    assert_eq!(from(&said, "anthropic").as_deref(), Ok("https://proxy.example"));
    let given = said.with_base_url("anthropic", at("http://127.0.0.1:9/"));
    assert_eq!(from(&given, "anthropic").as_deref(), Ok("http://127.0.0.1:9"));
    assert_eq!(
        from(&given, "ollama").as_deref(),
        Ok("http://localhost:11434/v1"),
        "the flag is for one provider"
    );
    assert_eq!(
        from(&providers(&[("OLLAMA_HOST", "gpu.lan")]), "ollama").as_deref(),
        Ok("http://gpu.lan:11434/v1")
    );
    let words = ProviderWords { base_url: Some(at("https://lab.example/api")), ..ProviderWords::default() };
    let own = with_words("lab", words);
    assert_eq!(from(&own, "lab").as_deref(), Ok("https://lab.example/api"));
    assert_eq!(own.endpoint("lab").expect("endpoint").format, Format::Chat);
    assert_eq!(own.split("lab/x/y", false), Ok(("lab".to_owned(), "x/y".to_owned())));
}

#[test]
fn bedrock_vertex_and_gemini_are_reached_over_the_three_wire_formats() {
    let keys =
        [("AWS_BEARER_TOKEN_BEDROCK", "aws"), ("VERTEX_API_KEY", "token"), ("GEMINI_API_KEY", "gemini")];
    let keyed = providers(&keys);
    for (name, provider, format, base_url) in [
        ("bedrock", "bedrock", Format::Chat, "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"),
        (
            "bedrock-anthropic",
            "bedrock-anthropic",
            Format::Anthropic,
            "https://bedrock-mantle.us-east-1.api.aws/anthropic",
        ),
        ("gemini-native", "gemini", Format::Chat, "https://generativelanguage.googleapis.com/v1beta/openai"),
    ] {
        let endpoint = keyed.endpoint(name).expect(name);
        let found = (endpoint.provider.as_str(), endpoint.format, endpoint.base_url.as_str());
        assert_eq!(found, (provider, format, base_url));
    }
    assert_eq!(
        keyed.endpoint("vertex").map(|endpoint| endpoint.base_url),
        Err(ProviderError::NoBaseUrl { provider: "vertex".to_owned() })
    );
    let project = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi";
    let vertex = keyed.with_base_url("vertex", at(project)).endpoint("vertex").expect("endpoint");
    assert_eq!((vertex.format, vertex.base_url.as_str()), (Format::Chat, project));
}

#[test]
fn a_key_says_where_it_came_from_and_never_what_it_is() {
    let canary = "sk-canary";
    let both = providers(&[("GOOGLE_API_KEY", canary), ("GEMINI_API_KEY", canary)]);
    let endpoint = both.endpoint("gemini").expect("endpoint");
    assert_eq!(endpoint.key.as_ref().map(Key::origin), Some("GEMINI_API_KEY"));
    assert!(!format!("{endpoint:?}{both:?}").contains("canary"));
    let words = ProviderWords { key: Some(Key::new(canary, "settings.yaml:3")), ..ProviderWords::default() };
    assert_eq!(with_words("openai", words).key_origin("openai"), Ok(Some("settings.yaml:3".to_owned())));
    let words = ProviderWords { key_env: Some("WORK_KEY".to_owned()), ..ProviderWords::default() };
    let work = Providers::new(
        [("openai".to_owned(), words)],
        [("WORK_KEY".to_owned(), canary.to_owned()), ("OPENAI_API_KEY".to_owned(), "sk-other".to_owned())],
    );
    assert_eq!(work.key_origin("openai"), Ok(Some("WORK_KEY".to_owned())));
}

#[test]
fn a_missing_or_broken_key_or_url_is_named_with_what_to_do() {
    let key = |value| [("ANTHROPIC_API_KEY", value)];
    let words = ProviderWords { key_env: Some("WORK_KEY".to_owned()), ..ProviderWords::default() };
    let user = providers(&key("k")).with_base_url("anthropic", at("https://me:canary@h.example"));
    for (providers, name, part) in [
        (
            providers(&[]),
            "anthropic",
            "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or providers.anthropic.key_env",
        ),
        (providers(&key("  ")), "anthropic", "anthropic needs an API key"),
        (
            providers(&key("sk-canary\nsk-canary")),
            "anthropic",
            "ANTHROPIC_API_KEY: the key of anthropic has line breaks",
        ),
        (
            providers(&key("sk-canary-ü")),
            "anthropic",
            "ANTHROPIC_API_KEY: the key of anthropic has characters",
        ),
        (with_words("ollama", words), "ollama", "set WORK_KEY"),
        (providers(&[]), "openai-compatible", "set providers.openai-compatible.base_url"),
        (user, "anthropic", "--base-url: the base URL of anthropic contains a user name or a password"),
        (
            providers(&[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "h")]),
            "openai",
            "OPENAI_BASE_URL: the base URL",
        ),
    ] {
        let error = providers.endpoint(name).expect_err(part).to_string();
        assert!(error.contains(part) && !error.contains("canary"), "{error}");
    }
}

#[test]
fn the_first_provider_with_a_key_is_ready() {
    let ready = |variables: &[(&str, &str)]| providers(variables).first_ready().map(|(_, model)| model);
    assert_eq!(ready(&[]), None);
    assert_eq!(ready(&[("OLLAMA_HOST", "gpu.lan")]), None, "a local server is asked for its models instead");
    assert_eq!(ready(&[("XAI_API_KEY", "k")]).as_deref(), Some("xai/grok-4.5"));
    let both = [("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")];
    assert_eq!(ready(&both).as_deref(), Some("anthropic/claude-sonnet-5-5"));
    let words = ProviderWords { key: Some(Key::new("k", "settings.yaml:3")), ..ProviderWords::default() };
    assert_eq!(
        with_words("mistral", words).first_ready().map(|(_, model)| model).as_deref(),
        Some("mistral/mistral-medium-latest")
    );
}

#[test]
fn what_a_person_says_of_a_server_goes_before_the_table() {
    let known = prices::Prices::default().look_up("ollama", "x", true);
    let words = ProviderWords { context_tokens: Some(8_192), ..ProviderWords::default() };
    let said = with_words("ollama", words).facts("ollama", known);
    assert_eq!((said.context_tokens, said.max_output_tokens), (8_192, known.max_output_tokens));
    assert_eq!(providers(&[]).facts("ollama", known).context_tokens, known.context_tokens);
}
