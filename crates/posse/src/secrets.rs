//! Keys that must not leave the machine in an exported run.

/// What stands where a secret stood, filled up to its length.
const MARK: &str = "[secret left out";
/// The same where that does not fit.
const SHORT_MARK: &str = "[secret";
/// Shorter values are words, not keys: replacing them would ruin the text and hide nothing.
const VALUE_MIN_BYTES: usize = 8;
/// Longest private key that is looked for after its first line.
const PEM_MAX_BYTES: usize = 64 * 1024;
/// Characters between the name of a secret and its value.
const ASSIGNMENT_MAX_BYTES: usize = 8;
/// Length of the secret half of an AWS key.
const AWS_SECRET_BYTES: usize = 40;

/// A kind of key that can be told by how it looks.
struct Shape {
    name: &'static str,
    prefix: &'static str,
    /// Characters that follow at least.
    least: usize,
    of: fn(u8) -> bool,
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
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
];

/// What is looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets {
    values: Vec<Vec<u8>>,
}

/// A text without its secrets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cleaned {
    pub(crate) bytes: Vec<u8>,
    /// What was found, once for each time.
    pub(crate) found: Vec<&'static str>,
}

impl Secrets {
    /// Looks for these values and for everything that looks like a key.
    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for value in values.into_iter().filter(|value| value.len() >= VALUE_MIN_BYTES) {
            // In a journal it stands as JSON has it.
            let json = serde_json::to_string(&value).unwrap_or_default();
            let json = json.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned();
            if json != value && json.len() >= VALUE_MIN_BYTES {
                all.push(json.into_bytes());
            }
            all.push(value.into_bytes());
        }
        // A value may be part of a longer one.
        all.sort_by_key(|value| std::cmp::Reverse(value.len()));
        all.dedup();
        Self { values: all }
    }

    /// The text without its secrets; none if it has none.
    pub(crate) fn clean(&self, text: &[u8]) -> Option<Cleaned> {
        let mut out: Option<Cleaned> = None;
        let (mut at, mut copied) = (0, 0);
        while at < text.len() {
            let Some((length, name)) = self.secret_at(text, at) else {
                at += 1;
                continue;
            };
            let cleaned = out.get_or_insert_with(|| Cleaned { bytes: Vec::new(), found: Vec::new() });
            cleaned.bytes.extend_from_slice(&text[copied..at]);
            cleaned.bytes.extend(mark(&text[at..at + length]));
            cleaned.found.push(name);
            at += length;
            copied = at;
        }
        if let Some(cleaned) = &mut out {
            cleaned.bytes.extend_from_slice(&text[copied..]);
        }
        out
    }

    fn secret_at(&self, text: &[u8], at: usize) -> Option<(usize, &'static str)> {
        let rest = &text[at..];
        if let Some(value) = self.values.iter().find(|value| rest.starts_with(value)) {
            return Some((value.len(), "a key of yours"));
        }
        match rest[0] {
            b'-' => private_key(rest).map(|length| (length, "a private key")),
            // Nothing of what follows can stand in the middle of a word: `task-…` is no key.
            _ if at > 0 && word(text[at - 1]) => aws_secret(text, at).map(|length| (length, "an AWS secret")),
            _ => shaped(rest).or_else(|| aws_secret(text, at).map(|length| (length, "an AWS secret"))),
        }
    }
}

/// What stands where a secret stood. As long as it was, and with as many lines, so that what is said of sizes and places
/// elsewhere stays true.
fn mark(secret: &[u8]) -> Vec<u8> {
    let begin = if secret.len() > MARK.len() { MARK } else { SHORT_MARK };
    let mut mark = begin.as_bytes().to_vec();
    let rest = secret.get(begin.len()..secret.len() - 1).unwrap_or_default();
    mark.extend(rest.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b'*' }));
    mark.push(b']');
    mark
}

fn shaped(rest: &[u8]) -> Option<(usize, &'static str)> {
    SHAPES.iter().find_map(|shape| {
        let tail = rest.strip_prefix(shape.prefix.as_bytes())?;
        let length = tail.iter().take_while(|byte| (shape.of)(**byte)).count();
        (length >= shape.least).then_some((shape.prefix.len() + length, shape.name))
    })
}

/// A private key, with its first and last line. In JSON its lines end in `\n`, in a file in a real one.
fn private_key(rest: &[u8]) -> Option<usize> {
    let head = rest.strip_prefix(b"-----BEGIN ")?;
    let name_end = find(&head[..head.len().min(64)], b"PRIVATE KEY-----")?;
    let body = &head[name_end..head.len().min(PEM_MAX_BYTES)];
    let begin = rest.len() - head.len() + name_end;
    let end = find(body, b"-----END ").and_then(|end| {
        find(&body[end..], b"PRIVATE KEY-----").map(|last| begin + end + last + b"PRIVATE KEY-----".len())
    });
    // One that is cut off is a key all the same.
    Some(end.unwrap_or(begin + body.len()))
}

/// The secret half of an AWS key can only be told by the name in front of it.
fn aws_secret(text: &[u8], at: usize) -> Option<usize> {
    const NAME: &[u8] = b"aws_secret_access_key";
    let is_value = |byte: &u8| byte.is_ascii_alphanumeric() || b"/+=".contains(byte);
    if !is_value(&text[at]) || at == 0 || is_value(&text[at - 1]) && text[at - 1] != b'=' {
        return None;
    }
    let from = at.saturating_sub(NAME.len() + ASSIGNMENT_MAX_BYTES);
    let before = text[from..at].to_ascii_lowercase();
    let name = find(&before, NAME)?;
    let between = &before[name + NAME.len()..];
    let assigns = !between.is_empty() && between.iter().all(|byte| b" \t=:\"'\\".contains(byte));
    let length = text[at..].iter().take_while(|byte| is_value(byte)).count();
    (assigns && length >= AWS_SECRET_BYTES).then_some(length)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(secret: &str) -> String {
        String::from_utf8(mark(secret.as_bytes())).expect("text")
    }

    fn clean(text: &str) -> Option<(String, Vec<&'static str>)> {
        let secrets =
            Secrets::new(["canary-value-1".to_owned(), "short".to_owned(), "with\"quote\"".to_owned()]);
        let cleaned = secrets.clean(text.as_bytes())?;
        Some((String::from_utf8(cleaned.bytes).expect("text"), cleaned.found))
    }

    #[test]
    fn a_given_value_is_found_also_as_json_has_it() {
        assert_eq!(
            clean("a canary-value-1, b").expect("found"),
            ("a [secret******], b".to_owned(), vec!["a key of yours"])
        );
        assert_eq!(clean(r#"{"k":"with\"quote\""}"#).expect("found").0, r#"{"k":"[secret*****]"}"#);
        assert_eq!(clean("a short one"), None, "too short to be a key");
    }

    #[test]
    fn keys_are_known_by_their_shape() {
        let tail = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
        for key in [
            format!("sk-ant-{tail}"),
            format!("sk-proj-{tail}"),
            format!("ghp_{tail}"),
            format!("github_pat_{tail}"),
            format!("AIza{tail}"),
            format!("hf_{tail}"),
            format!("glpat-{tail}"),
            format!("xoxa-{tail}"),
            format!("xoxb-12345678901-{tail}"),
            format!("xoxp-{tail}"),
            format!("xoxr-{tail}"),
            format!("xoxs-{tail}"),
            format!("npm_{tail}"),
            format!("sk_live_{tail}"),
            format!("rk_live_{tail}"),
            "AKIA0123456789ABCDEF".to_owned(),
            format!("-----BEGIN RSA PRIVATE KEY-----\\n{tail}\\n-----END RSA PRIVATE KEY-----"),
            format!("-----BEGIN PRIVATE KEY-----\n{tail}\n-----END PRIVATE KEY-----"),
        ] {
            let text = format!("key = \"{key}\";");
            assert_eq!(clean(&text).expect(&key).0, format!("key = \"{}\";", marked(&key)), "{key}");
        }
        let key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let text = clean(&format!("aws_secret_access_key = {key}")).expect("aws").0;
        assert_eq!(text, format!("aws_secret_access_key = {}", marked(key)));
    }

    #[test]
    fn what_only_looks_a_little_like_one_stays() {
        for text in [
            "task-0123456789012345678901234567890",
            "sk-short",
            "AKIAIO",
            "npm_config_registry_of_the_whole_project_and_more",
            "hf_hub_download_of_all_the_files_of_a_model",
            "xoxo-0123456789012345",
            "sk_live_mode",
            "-----BEGIN CERTIFICATE-----",
            "skill: sk-",
            "the aws_secret_access_key is not here",
        ] {
            assert_eq!(clean(text), None, "{text}");
        }
    }

    #[test]
    fn a_private_key_that_is_cut_off_goes_to_the_end() {
        let text = "x -----BEGIN PRIVATE KEY-----\nabc";
        let expected = "x [secret left out***********\n**]";
        assert_eq!(clean(text).expect("found").0, expected);
        assert_eq!(text.len(), expected.len(), "as long as it was");
    }
}
