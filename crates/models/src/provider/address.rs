//! Checks a user's base URL or key before anything is sent.

use std::net::Ipv6Addr;

use url::Url;

use crate::endpoint::Format;

/// Longest key that is accepted.
const KEY_MAX_BYTES: usize = 16 * 1024;
/// The port of a local Ollama.
const OLLAMA_PORT: &str = "11434";

/// Paths that documentation shows at the end of an address, and that the wire format appends itself.
const CALL_PATHS: [&str; 3] = ["/chat/completions", "/responses", "/messages"];

/// Normalises a base URL: without a trailing slash and the path of a call, and with the version where the format has it
/// there. A user may therefore add `/v1` or not, or copy a whole address.
pub(super) fn base_url(text: &str, format: Format) -> Result<String, String> {
    let text = text.trim();
    let mut url = Url::parse(text).map_err(|_| not_one(text))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(not_one(text));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("contains a user name or a password, which would end up in journals and logs; remove it, and set \
                    the key in a variable or in the settings"
            .to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("contains a `?` or a `#`; use only scheme, host, port and path".to_owned());
    }
    let path = without_call(url.path()).to_owned();
    url.set_path(&path);
    let whole = url.as_str().trim_end_matches('/');
    let is_bare = path.is_empty();
    Ok(match format {
        Format::Anthropic => whole.strip_suffix("/v1").unwrap_or(whole).to_owned(),
        Format::Chat | Format::Responses if is_bare => format!("{whole}/v1"),
        Format::Chat | Format::Responses => whole.to_owned(),
    })
}

fn without_call(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    let base = CALL_PATHS.iter().find_map(|call| path.strip_suffix(call));
    base.unwrap_or(path).trim_end_matches('/')
}

fn not_one(text: &str) -> String {
    // The text may be a key in the wrong field, so it is only repeated if it looks like an address.
    let shown = if text.len() <= 100 && text.contains(['.', ':']) && !text.contains('@') {
        format!("`{text}` ")
    } else {
        String::new()
    };
    format!("{shown}is not a base URL; it must look like `https://host/path` or `http://localhost:8080/v1`")
}

/// `OLLAMA_HOST` as Ollama reads it: scheme, host and port may be missing, and the listen address of a server is not an
/// address to connect to. With a scheme, the default port is the scheme's.
pub(super) fn ollama_host(text: &str) -> String {
    let text = text.trim().trim_end_matches('/');
    let (scheme, rest, usual_port) =
        text.split_once("://").map_or(("http", text, OLLAMA_PORT), |(scheme, rest)| (scheme, rest, ""));
    let (authority, path) = rest.split_once('/').map_or((rest, String::new()), |(a, p)| (a, format!("/{p}")));
    let (host, port) = host_and_port(authority);
    let port = port.unwrap_or(usual_port);
    let host = match host {
        "" | "0.0.0.0" | "::" | "[::]" => "localhost".to_owned(),
        bare if bare.parse::<Ipv6Addr>().is_ok() => format!("[{bare}]"),
        other => other.to_owned(),
    };
    let whole = format!("{scheme}://{host}:{port}{path}");
    // The parser omits a port that is empty or the scheme's own.
    Url::parse(&whole).map_or(whole, |url| url.as_str().trim_end_matches('/').to_owned())
}

/// A host and a port, of which one may be missing. An address with many colons has no port unless it has brackets.
fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    if authority.parse::<u16>().is_ok() {
        return ("", Some(authority));
    }
    if authority.parse::<Ipv6Addr>().is_ok() || authority.ends_with(']') {
        return (authority, None);
    }
    authority
        .rsplit_once(':')
        .map_or((authority, None), |(host, port)| (host, Some(port).filter(|port| !port.is_empty())))
}

/// The trimmed key, or the problem with it. The error never repeats the key.
pub(super) fn key(text: &str) -> Result<&str, &'static str> {
    let text = text.trim();
    match text {
        "" => Err("is empty"),
        _ if text.len() > KEY_MAX_BYTES => Err("is too long for a key"),
        _ if text.contains(['\n', '\r']) => Err("has line breaks in it: a key is one line"),
        _ if !text.is_ascii() => Err("has characters in it that no key has (they are not ASCII)"),
        _ if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err("has spaces or control characters in it")
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_an_api_may_be_left_out_or_written() {
        for (text, format, expected) in [
            ("http://127.0.0.1:8080", Format::Chat, "http://127.0.0.1:8080/v1"),
            ("http://127.0.0.1:8080/v1/", Format::Chat, "http://127.0.0.1:8080/v1"),
            ("https://h.example/openai/v1", Format::Responses, "https://h.example/openai/v1"),
            ("https://h.example", Format::Responses, "https://h.example/v1"),
            ("https://h.example/v1", Format::Anthropic, "https://h.example"),
            (" https://h.example/ ", Format::Anthropic, "https://h.example"),
            ("https://h.example/claude/", Format::Anthropic, "https://h.example/claude"),
            ("https://h.example/v1/chat/completions", Format::Chat, "https://h.example/v1"),
            ("https://h.example/chat/completions/", Format::Chat, "https://h.example/v1"),
            ("https://h.example/api/chat/completions", Format::Chat, "https://h.example/api"),
            ("https://h.example/v1/responses", Format::Responses, "https://h.example/v1"),
            ("https://h.example/responses", Format::Responses, "https://h.example/v1"),
            ("https://h.example/v1/messages", Format::Anthropic, "https://h.example"),
            ("https://h.example/claude/messages", Format::Anthropic, "https://h.example/claude"),
            ("https://messages", Format::Anthropic, "https://messages"),
        ] {
            assert_eq!(base_url(text, format).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_base_url_is_refused() {
        for (text, part) in [
            ("localhost:8080", "is not a base URL"),
            ("ftp://h.example", "is not a base URL"),
            ("", "is not a base URL"),
            ("http://", "is not a base URL"),
            ("sk-canary", "is not a base URL"),
            ("https://me:canary@h.example", "a user name or a password"),
            ("https://canary@h.example", "a user name or a password"),
            ("https://h.example/?key=canary", "a `?`"),
        ] {
            let problem = base_url(text, Format::Chat).expect_err(text);
            assert!(problem.contains(part) && !problem.contains("canary"), "{text}: {problem}");
        }
    }

    #[test]
    fn ollamas_own_spelling_is_understood() {
        for (text, expected) in [
            ("127.0.0.1:11434", "http://127.0.0.1:11434"),
            ("0.0.0.0", "http://localhost:11434"),
            ("0.0.0.0:8080", "http://localhost:8080"),
            (":9999", "http://localhost:9999"),
            ("gpu.lan", "http://gpu.lan:11434"),
            ("https://gpu.lan:443/", "https://gpu.lan"),
            ("http://gpu.lan:80", "http://gpu.lan"),
            ("[::1]:11434", "http://[::1]:11434"),
            ("[::1]", "http://[::1]:11434"),
            ("::1", "http://[::1]:11434"),
            ("::", "http://localhost:11434"),
            ("[::]:8080", "http://localhost:8080"),
            ("18555", "http://localhost:18555"),
            (":18555", "http://localhost:18555"),
            ("http://:18555", "http://localhost:18555"),
            ("gpu.lan:", "http://gpu.lan:11434"),
            ("https://gpu.lan/ollama/", "https://gpu.lan/ollama"),
            ("http://[::1]", "http://[::1]"),
        ] {
            assert_eq!(ollama_host(text), expected, "{text}");
        }
    }

    #[test]
    fn a_key_is_one_line_of_ascii() {
        assert_eq!(key(" sk-x \n"), Ok("sk-x"));
        for bad in ["", "  ", "sk-x\nsk-y", "sk-\u{e4}", "sk x", "sk-\u{7}"] {
            assert!(key(bad).is_err(), "{bad:?}");
        }
    }
}
