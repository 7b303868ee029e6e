//! The cookie of the page. Its value is a session, not the token: it ends by itself, it ends with its token, and it tells
//! nothing about it.
//!
//! A session is `EXPIRY.NAME.MAC`: when it ends, the name of its token, and an authentication code over both and the
//! token's hash. Nothing is stored, so a browser stays logged in over a restart of the server. The key of the code is
//! derived from the start-up token: a new one ends all sessions.

use axum::http::{HeaderMap, header};

use super::limits::SESSION_LIFETIME;

/// The name of the cookie.
pub(super) const COOKIE: &str = "posse_token";
/// What the key is for, so that no other use of the token gives the same one.
const CONTEXT: &str = "posse serve: session of the page";

/// Makes and checks sessions.
pub(super) struct SessionKey([u8; blake3::KEY_LEN]);

/// What a session says; whether it is genuine is checked with the hash of its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadSession<'a> {
    pub(super) expires_at_ms: i64,
    pub(super) name: &'a str,
    mac: blake3::Hash,
}

impl SessionKey {
    /// The key of a server with this start-up token.
    pub(super) fn of_token(token: &str) -> Self {
        Self(blake3::derive_key(CONTEXT, token.as_bytes()))
    }

    /// A session of a token, as the value of a cookie.
    pub(super) fn session(&self, name: &str, token: &blake3::Hash, now_ms: i64) -> String {
        let lifetime = i64::try_from(SESSION_LIFETIME.as_millis()).unwrap_or(i64::MAX);
        let expires_at_ms = now_ms.saturating_add(lifetime);
        format!("{expires_at_ms}.{name}.{}", self.mac(expires_at_ms, name, token).to_hex())
    }

    /// Whether a session was made for this token and has not ended.
    pub(super) fn is_genuine(&self, session: &ReadSession<'_>, token: &blake3::Hash, now_ms: i64) -> bool {
        // Hashes are compared in constant time.
        self.mac(session.expires_at_ms, session.name, token) == session.mac && now_ms < session.expires_at_ms
    }

    fn mac(&self, expires_at_ms: i64, name: &str, token: &blake3::Hash) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&expires_at_ms.to_le_bytes()).update(token.as_bytes()).update(name.as_bytes());
        hasher.finalize()
    }
}

impl<'a> ReadSession<'a> {
    /// Reads the value of a cookie.
    pub(super) fn read(value: &'a str) -> Option<Self> {
        let (expires, rest) = value.split_once('.')?;
        let (name, mac) = rest.rsplit_once('.')?;
        Some(Self { expires_at_ms: expires.parse().ok()?, name, mac: blake3::Hash::from_hex(mac).ok()? })
    }
}

/// The sessions that a browser sends. It sends several if other servers of the same machine gave it some.
pub(super) fn of_headers(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value.trim_matches('"'))
}

/// The header that gives a browser a session.
pub(super) fn cookie(session: &str, is_encrypted: bool) -> String {
    let secure = if is_encrypted { "; Secure" } else { "" };
    let lifetime = SESSION_LIFETIME.as_secs();
    format!("{COOKIE}={session}; HttpOnly; SameSite=Strict; Path=/; Max-Age={lifetime}{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_that_of_its_token_until_it_ends() {
        let key = SessionKey::of_token("start-up");
        let (token, other) = (blake3::hash(b"one"), blake3::hash(b"two"));
        let value = key.session("ci", &token, 1_000);
        let session = ReadSession::read(&value).expect("a session");
        assert_eq!(session.name, "ci");
        assert!(key.is_genuine(&session, &token, 1_000));
        assert!(!key.is_genuine(&session, &other, 1_000), "of another token");
        assert!(!key.is_genuine(&session, &token, session.expires_at_ms), "it has ended");
        assert!(!SessionKey::of_token("another").is_genuine(&session, &token, 1_000), "of another server");
        let longer = ReadSession { expires_at_ms: session.expires_at_ms + 1, ..session };
        assert!(!key.is_genuine(&longer, &token, 1_000), "its end was changed");
        let renamed = ReadSession { name: "admin", ..session };
        assert!(!key.is_genuine(&renamed, &token, 1_000), "its name was changed");
        for wrong in ["", "1", "1.ci", "1.ci.00", "x.ci.", "..", "1.ci.zz"] {
            assert_eq!(ReadSession::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_cookie_of_the_name_is_found() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=b; posse_token=one ;posse_token=\"two\"".parse().expect("a value"));
        headers.append(header::COOKIE, "posse_token=three; posse_tokens=x".parse().expect("a value"));
        assert_eq!(of_headers(&headers).collect::<Vec<_>>(), ["one", "two", "three"]);
    }

    #[test]
    fn no_script_and_no_other_site_gets_the_cookie() {
        let plain = cookie("s", false);
        for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(plain.split("; ").any(|given| given == part), "{plain}");
        }
        assert!(!plain.contains("Secure") && cookie("s", true).ends_with("; Secure"));
    }
}
