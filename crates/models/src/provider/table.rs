//! The table of known providers. A new provider with a known wire format only needs a row here.

use super::{KeyNeed, Provider};
use crate::endpoint::{Format, ToolCalls};

/// Short names of models. A new model of a family replaces the older one here.
pub(super) const ALIASES: [(&str, &str); 3] = [
    ("sonnet", "anthropic/claude-sonnet-5-5"),
    ("opus", "anthropic/claude-opus-5-5"),
    ("haiku", "anthropic/claude-haiku-5-5"),
];

/// A provider on the network that needs a key.
const fn hosted(name: &'static str, format: Format, base_url: &'static str) -> Provider {
    Provider {
        name,
        aliases: &[],
        format,
        base_url: Some(base_url),
        url_variables: &[],
        key_variables: &[],
        key: KeyNeed::Needed,
        is_local: false,
        tools: ToolCalls::Native,
        default_model: None,
    }
}

/// A server on the user's own machine, which needs no key and costs nothing.
const fn local(name: &'static str, base_url: &'static str) -> Provider {
    Provider {
        key: KeyNeed::Optional,
        is_local: true,
        tools: ToolCalls::Probe,
        ..hosted(name, Format::Chat, base_url)
    }
}

/// Any server with this wire format, at a base URL that the user sets.
const fn compatible(name: &'static str, format: Format) -> Provider {
    Provider { base_url: None, key: KeyNeed::Optional, ..hosted(name, format, "") }
}

/// All known providers. Without `--model` the first with a key is used, so the order matters.
pub(super) static PROVIDERS: &[Provider] = &[
    Provider {
        url_variables: &["ANTHROPIC_BASE_URL"],
        key_variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
        default_model: Some("claude-sonnet-5-5"),
        ..hosted("anthropic", Format::Anthropic, "https://api.anthropic.com")
    },
    Provider {
        url_variables: &["OPENAI_BASE_URL"],
        key_variables: &["OPENAI_API_KEY"],
        default_model: Some("gpt-6.1-sol"),
        ..hosted("openai", Format::Responses, "https://api.openai.com/v1")
    },
    Provider {
        // `gemini-native` had its own client in earlier versions.
        aliases: &["google", "gemini-native"],
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        default_model: Some("gemini-3.8-flash"),
        ..hosted("gemini", Format::Chat, "https://generativelanguage.googleapis.com/v1beta/openai")
    },
    Provider {
        key_variables: &["OPENROUTER_API_KEY"],
        default_model: Some("anthropic/claude-sonnet-5.5"),
        ..hosted("openrouter", Format::Chat, "https://openrouter.ai/api/v1")
    },
    Provider {
        key_variables: &["GROQ_API_KEY"],
        default_model: Some("openai/gpt-oss-120b"),
        ..hosted("groq", Format::Chat, "https://api.groq.com/openai/v1")
    },
    Provider {
        key_variables: &["DEEPSEEK_API_KEY"],
        default_model: Some("deepseek-v4-pro"),
        ..hosted("deepseek", Format::Chat, "https://api.deepseek.com/v1")
    },
    Provider {
        key_variables: &["MISTRAL_API_KEY"],
        default_model: Some("mistral-medium-latest"),
        ..hosted("mistral", Format::Chat, "https://api.mistral.ai/v1")
    },
    Provider {
        aliases: &["x-ai"],
        key_variables: &["XAI_API_KEY"],
        default_model: Some("grok-4.5"),
        ..hosted("xai", Format::Chat, "https://api.x.ai/v1")
    },
    Provider {
        aliases: &["togetherai"],
        key_variables: &["TOGETHER_API_KEY"],
        ..hosted("together", Format::Chat, "https://api.together.xyz/v1")
    },
    Provider {
        key_variables: &["FIREWORKS_API_KEY"],
        ..hosted("fireworks", Format::Chat, "https://api.fireworks.ai/inference/v1")
    },
    Provider {
        key_variables: &["CEREBRAS_API_KEY"],
        ..hosted("cerebras", Format::Chat, "https://api.cerebras.ai/v1")
    },
    Provider {
        key_variables: &["NEBIUS_API_KEY"],
        ..hosted("nebius", Format::Chat, "https://api.studio.nebius.ai/v1")
    },
    Provider {
        aliases: &["kimi"],
        key_variables: &["MOONSHOT_API_KEY", "KIMI_API_KEY"],
        ..hosted("moonshot", Format::Chat, "https://api.moonshot.ai/v1")
    },
    Provider {
        key_variables: &["ZAI_API_KEY"],
        ..hosted("zai", Format::Chat, "https://api.z.ai/api/paas/v4")
    },
    Provider {
        key_variables: &["MINIMAX_API_KEY"],
        ..hosted("minimax", Format::Anthropic, "https://api.minimax.io/anthropic")
    },
    Provider {
        key_variables: &["DASHSCOPE_API_KEY"],
        ..hosted("dashscope", Format::Chat, "https://dashscope-intl.aliyuncs.com/compatible-mode/v1")
    },
    Provider {
        key_variables: &["OLLAMA_API_KEY"],
        ..hosted("ollama-cloud", Format::Chat, "https://ollama.com/v1")
    },
    Provider {
        key_variables: &["COHERE_API_KEY"],
        ..hosted("cohere", Format::Chat, "https://api.cohere.ai/compatibility/v1")
    },
    Provider {
        key_variables: &["AWS_BEARER_TOKEN_BEDROCK", "BEDROCK_API_KEY"],
        ..hosted("bedrock", Format::Chat, "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1")
    },
    // Claude on Bedrock: the endpoint above does not serve it.
    Provider {
        key_variables: &["AWS_BEARER_TOKEN_BEDROCK", "BEDROCK_API_KEY"],
        ..hosted("bedrock-anthropic", Format::Anthropic, "https://bedrock-mantle.us-east-1.api.aws/anthropic")
    },
    // The base URL contains the user's project and region, and the key is an access token valid for an hour.
    Provider { key_variables: &["VERTEX_API_KEY"], base_url: None, ..hosted("vertex", Format::Chat, "") },
    Provider { url_variables: &["OLLAMA_HOST"], ..local("ollama", "http://localhost:11434/v1") },
    Provider { aliases: &["llama.cpp"], ..local("llamacpp", "http://localhost:8080/v1") },
    local("vllm", "http://localhost:8000/v1"),
    local("lmstudio", "http://localhost:1234/v1"),
    Provider { tools: ToolCalls::Probe, ..compatible("openai-compatible", Format::Chat) },
    compatible("anthropic-compatible", Format::Anthropic),
];

/// The prefixes of a vendor's model names, and the vendor. Only names that no other vendor uses: many providers serve a
/// model called `llama-...`.
pub(super) static FAMILIES: &[(&str, &str)] = &[
    ("claude-", "anthropic"),
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini-", "gemini"),
    ("deepseek-", "deepseek"),
    ("mistral-", "mistral"),
    ("magistral-", "mistral"),
    ("codestral-", "mistral"),
    ("devstral-", "mistral"),
    ("grok-", "xai"),
];
