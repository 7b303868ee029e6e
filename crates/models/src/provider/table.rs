//! The providers Posse knows by name. A row here is all that a new one needs, if it speaks a known format.

use super::{KeyNeed, Provider};
use crate::endpoint::{Format, ToolCalls};

/// A provider on the network that wants a key.
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

/// A server on the person's own machine: it wants no key and costs nothing.
const fn local(name: &'static str, base_url: &'static str) -> Provider {
    Provider {
        key: KeyNeed::Optional,
        is_local: true,
        tools: ToolCalls::Probe,
        ..hosted(name, Format::Chat, base_url)
    }
}

/// Whatever speaks a format, wherever the person says that it is.
const fn compatible(name: &'static str, format: Format) -> Provider {
    Provider { base_url: None, key: KeyNeed::Optional, ..hosted(name, format, "") }
}

/// All of them. Without `--model` the first with a key is used, so the order matters.
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
        aliases: &["google"],
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
        ..hosted("bedrock", Format::Genai, "https://bedrock-runtime.us-east-1.amazonaws.com")
    },
    // Gemini's own interface, for those who want its thinking kept; `gemini` speaks the compatible one.
    Provider {
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        ..hosted("gemini-native", Format::Genai, "https://generativelanguage.googleapis.com/v1beta")
    },
    // Its place has the person's project and region in it, and its key is a token for an hour.
    Provider { key_variables: &["VERTEX_API_KEY"], base_url: None, ..hosted("vertex", Format::Genai, "") },
    Provider { url_variables: &["OLLAMA_HOST"], ..local("ollama", "http://localhost:11434/v1") },
    Provider { aliases: &["llama.cpp"], ..local("llamacpp", "http://localhost:8080/v1") },
    local("vllm", "http://localhost:8000/v1"),
    local("lmstudio", "http://localhost:1234/v1"),
    Provider { tools: ToolCalls::Probe, ..compatible("openai-compatible", Format::Chat) },
    compatible("anthropic-compatible", Format::Anthropic),
];

/// How the names of a vendor's models begin, and the vendor. Only names that nobody else gives: `llama-...` could be
/// anybody's.
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
