//! Recognises keys by their shape.

/// A kind of key with a recognisable shape.
struct Shape {
    name: &'static str,
    prefix: &'static str,
    /// The minimum of characters after the prefix.
    least: usize,
    of: fn(u8) -> bool,
}

pub(super) fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn dotted(byte: u8) -> bool {
    word(byte) || byte == b'.'
}

fn path(byte: u8) -> bool {
    word(byte) || byte == b'/'
}

const SHAPES: &[Shape] = &[
    Shape { name: "a key of a model provider", prefix: "sk-", least: 20, of: word },
    Shape { name: "an AWS key", prefix: "AKIA", least: 16, of: upper },
    Shape { name: "an AWS key", prefix: "ASIA", least: 16, of: upper },
    Shape { name: "a GitHub token", prefix: "ghp_", least: 36, of: word },
    Shape { name: "a GitHub token", prefix: "gho_", least: 36, of: word },
    Shape { name: "a GitHub token", prefix: "ghu_", least: 36, of: word },
    Shape { name: "a GitHub token", prefix: "ghs_", least: 36, of: word },
    Shape { name: "a GitHub token", prefix: "ghr_", least: 36, of: word },
    Shape { name: "a GitHub token", prefix: "github_pat_", least: 22, of: word },
    Shape { name: "a Google key", prefix: "AIza", least: 35, of: word },
    Shape { name: "an xAI key", prefix: "xai-", least: 20, of: word },
    Shape { name: "a Groq key", prefix: "gsk_", least: 20, of: word },
    Shape { name: "a Hugging Face token", prefix: "hf_", least: 30, of: alphanumeric },
    Shape { name: "a GitLab token", prefix: "glpat-", least: 20, of: word },
    Shape { name: "a Slack token", prefix: "xoxa-", least: 10, of: word },
    Shape { name: "a Slack token", prefix: "xoxb-", least: 10, of: word },
    Shape { name: "a Slack token", prefix: "xoxp-", least: 10, of: word },
    Shape { name: "a Slack token", prefix: "xoxr-", least: 10, of: word },
    Shape { name: "a Slack token", prefix: "xoxs-", least: 10, of: word },
    Shape { name: "an npm token", prefix: "npm_", least: 36, of: alphanumeric },
    Shape { name: "a Stripe key", prefix: "sk_live_", least: 16, of: alphanumeric },
    Shape { name: "a Stripe key", prefix: "rk_live_", least: 16, of: alphanumeric },
    Shape { name: "a Stripe key", prefix: "sk_test_", least: 16, of: alphanumeric },
    Shape { name: "a Stripe key", prefix: "rk_test_", least: 16, of: alphanumeric },
    Shape { name: "a Stripe secret", prefix: "whsec_", least: 24, of: alphanumeric },
    Shape { name: "a Slack token", prefix: "xoxe.", least: 20, of: dotted },
    Shape { name: "a Slack token", prefix: "xapp-", least: 20, of: word },
    Shape { name: "a Google token", prefix: "ya29.", least: 20, of: word },
    Shape { name: "a Google secret", prefix: "GOCSPX-", least: 20, of: word },
    Shape { name: "a SendGrid key", prefix: "SG.", least: 40, of: dotted },
    Shape { name: "a PyPI token", prefix: "pypi-", least: 40, of: word },
    Shape { name: "a DigitalOcean token", prefix: "dop_v1_", least: 40, of: alphanumeric },
    Shape { name: "a Vault token", prefix: "hvs.", least: 20, of: word },
    Shape { name: "a Shopify token", prefix: "shpat_", least: 32, of: alphanumeric },
    Shape { name: "a Linear key", prefix: "lin_api_", least: 32, of: alphanumeric },
    Shape { name: "an age key", prefix: "AGE-SECRET-KEY-1", least: 50, of: upper },
    Shape { name: "a Slack webhook", prefix: "hooks.slack.com/services/", least: 20, of: path },
    Shape { name: "a Discord webhook", prefix: "discord.com/api/webhooks/", least: 30, of: path },
];

/// The minimum length of each part of a web token, `header.claims.signature`.
const JWT_PART_MIN_BYTES: usize = 10;

/// A key that begins here, recognised by its shape.
pub(super) fn shaped(rest: &[u8]) -> Option<(usize, &'static str)> {
    let by_prefix = SHAPES.iter().find_map(|shape| {
        let tail = rest.strip_prefix(shape.prefix.as_bytes())?;
        let length = tail.iter().take_while(|byte| (shape.of)(**byte)).count();
        (length >= shape.least).then_some((shape.prefix.len() + length, shape.name))
    });
    by_prefix.or_else(|| web_token(rest).map(|length| (length, "a web token")))
}

/// A JSON Web Token: two objects in base64, which begin alike, and a signature.
fn web_token(rest: &[u8]) -> Option<usize> {
    let mut length = 0;
    for (part, begins) in [&b"eyJ"[..], b"eyJ", b""].into_iter().enumerate() {
        let tail = rest.get(length..)?;
        let tail = if part == 0 { tail } else { tail.strip_prefix(b".")? };
        let letters = tail.iter().take_while(|byte| word(**byte)).count();
        if !tail.starts_with(begins) || letters < JWT_PART_MIN_BYTES {
            return None;
        }
        length += letters + usize::from(part > 0);
    }
    Some(length)
}
