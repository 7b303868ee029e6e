//! Derives the features of a model from its name, because no API states them.

use super::ModelFeatures;

/// The last version of Claude that accepts a temperature.
const LAST_SAMPLED_CLAUDE: (u32, u32) = (4, 6);
/// A longer number in a name is a date.
const MAX_VERSION_DIGITS: usize = 2;

/// Parts of names of thinking models, which accept no temperature.
const UNSAMPLED: &[&str] = &["gpt-5", "gpt-6", "o1", "o3", "o4", "codex"];

/// Parts of names of models that accept pictures.
const SEEING: &[&str] = &[
    "claude",
    "gpt-4o",
    "gpt-4.1",
    "gpt-4-turbo",
    "gpt-5",
    "gpt-6",
    "o1",
    "o3",
    "o4",
    "gemini",
    "gemma-3",
    "gemma3",
    "gemma-4",
    "gemma4",
    "grok-4",
    "grok-5",
    "llama-4",
    "llama4",
    "llava",
    "pixtral",
    "mistral-small",
    "mistral-medium",
    "mistral-large",
    "vision",
    "-vl",
    "vl-",
    ".5vl",
    "3-vl",
    "multimodal",
    "minicpm-v",
    "internvl",
    "qwen3.5",
    "kimi-k2.5",
];

impl ModelFeatures {
    /// The features of a model, by its name at the provider.
    pub(crate) fn of(model: &str) -> Self {
        let name = model.to_lowercase();
        Self { images: SEEING.iter().any(|part| has(&name, part)), sampling: samples(&name) }
    }
}

fn samples(name: &str) -> bool {
    if let Some((_, rest)) = name.split_once("claude") {
        return claude_version(rest).is_none_or(|version| version <= LAST_SAMPLED_CLAUDE);
    }
    !UNSAMPLED.iter().any(|part| has(name, part))
}

/// The version in `-opus-4-7-20260101`, `-3-5-haiku` or `-sonnet-4.5`.
fn claude_version(rest: &str) -> Option<(u32, u32)> {
    let mut parts = rest.split(['-', '.', '@', ':']);
    let number = |part: &str| part.parse::<u32>().ok().filter(|_| part.len() <= MAX_VERSION_DIGITS);
    let major = parts.by_ref().find_map(number)?;
    Some((major, parts.next().and_then(number).unwrap_or(0)))
}

/// Whether a name contains the part at the beginning of a word.
fn has(name: &str, part: &str) -> bool {
    name.match_indices(part).any(|(at, _)| {
        !part.starts_with(|c: char| c.is_ascii_alphanumeric())
            || !name[..at].ends_with(|c: char| c.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_think_take_no_temperature() {
        for name in
            ["claude-opus-4-7", "claude-opus-5-5", "claude-sonnet-5", "gpt-5.2", "o3-mini", "openai/o4-mini"]
        {
            assert!(!ModelFeatures::of(name).sampling, "{name}");
        }
        let sampled = [
            "claude-3-5-haiku-latest",
            "claude-sonnet-4-20250514",
            "claude-opus-4.6",
            "gpt-4o",
            "qwen3-coder",
        ];
        for name in sampled {
            assert!(ModelFeatures::of(name).sampling, "{name}");
        }
    }

    #[test]
    fn models_that_see_are_known_by_name() {
        for name in [
            "claude-haiku-4-5",
            "gpt-4o-mini",
            "qwen2.5vl:7b",
            "qwen3-vl-30b",
            "llama3.2-vision",
            "google/gemini-3-pro",
        ] {
            assert!(ModelFeatures::of(name).images, "{name}");
        }
        for name in ["qwen3:8b", "deepseek-chat", "llama3.1", "solo1"] {
            assert!(!ModelFeatures::of(name).images, "{name}");
        }
    }
}
