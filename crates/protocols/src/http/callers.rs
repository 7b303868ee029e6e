//! Who sends a request: the token behind it, by itself or through a session of the page.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use posse::api::TokenRight;
use posse::ports::TenantId;
use posse_setup::server::access::STARTUP;
use posse_setup::server::{AccessFile, ServerAccess, StoredToken};

use super::access::single;
use super::problem::{Problem, ProblemCode};
use super::session::{self, ReadSession, SessionKey};
use super::token::Token;

/// The word before the token in the header `Authorization`.
const SCHEME: &str = "Bearer ";

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    /// The name of the token.
    pub(super) name: String,
    pub(super) tenant: TenantId,
    pub(super) rights: Vec<TokenRight>,
    pub(super) expires_at_ms: Option<i64>,
    /// Whether a browser sends the request by itself, with a cookie. Then its page must be the server's own.
    pub(super) is_browser: bool,
    hash: blake3::Hash,
}

impl Caller {
    /// Whether the token has a right.
    pub(super) fn may(&self, right: TokenRight) -> bool {
        self.rights.contains(&right)
    }

    /// Whether the caller is the operator of the server: an admin of the local tenant.
    pub(super) fn is_operator(&self) -> bool {
        self.may(TokenRight::Admin) && self.tenant == TenantId::local()
    }
}

/// The tokens of a server.
pub(super) struct Tokens {
    startup: Token,
    key: SessionKey,
    stored: AccessFile,
}

impl Tokens {
    pub(super) fn new(startup: Token, stored: AccessFile) -> Self {
        let key = SessionKey::of_token(startup.text());
        Self { startup, key, stored }
    }

    /// The tokens and projects that are stored now. A file that cannot be read gives no client access.
    pub(super) fn stored(&self) -> Arc<ServerAccess> {
        self.stored.current().unwrap_or_else(|error| {
            tracing::error!(%error, "the tokens cannot be read");
            Arc::default()
        })
    }

    /// The text of the start-up token, for the one place that shows it.
    pub(super) fn startup(&self) -> &str {
        self.startup.text()
    }

    /// Who sends a request to the API.
    pub(super) fn caller(&self, headers: &HeaderMap, now_ms: i64) -> Result<Caller, Problem> {
        if headers.contains_key(header::AUTHORIZATION) {
            let given = single(headers, header::AUTHORIZATION.as_str())
                .and_then(|value| value.strip_prefix(SCHEME))
                .and_then(|token| self.caller_of_token(token.trim(), now_ms));
            return given
                .ok_or_else(|| refused("the token is wrong, revoked or has expired", "Authorization"));
        }
        let mut sessions = session::of_headers(headers).peekable();
        let has_session = sessions.peek().is_some();
        match sessions.find_map(|session| self.caller_of_session(session, now_ms)) {
            Some(caller) => Ok(caller),
            None if has_session => Err(refused("the session of the page has ended", "Cookie")),
            None => Err(refused("the token is missing", "Authorization")),
        }
    }

    /// The caller with this token.
    pub(super) fn caller_of_token(&self, given: &str, now_ms: i64) -> Option<Caller> {
        // Only hashes are compared: how long that takes tells nothing about a token.
        let hash = blake3::hash(given.as_bytes());
        let stored = self.stored();
        let found = stored.tokens.iter().find(|token| token.hash.as_bytes() == hash.as_bytes());
        let found = found.filter(|token| !token.is_expired(now_ms)).map(of_stored);
        if self.startup.is(given) { Some(self.startup_caller()) } else { found }
    }

    /// Whether the token of a caller is still valid.
    pub(super) fn knows(&self, caller: &Caller, now_ms: i64) -> bool {
        let is_same = |token: &StoredToken| {
            token.name == caller.name && token.hash.as_bytes() == caller.hash.as_bytes()
        };
        caller.name == STARTUP
            || self.stored().tokens.iter().any(|token| is_same(token) && !token.is_expired(now_ms))
    }

    fn caller_of_session(&self, value: &str, now_ms: i64) -> Option<Caller> {
        let session = ReadSession::read(value)?;
        let caller = if session.name == STARTUP {
            self.startup_caller()
        } else {
            let stored = self.stored();
            let found = stored.tokens.iter().find(|token| token.name == session.name);
            of_stored(found.filter(|token| !token.is_expired(now_ms))?)
        };
        let is_genuine = self.key.is_genuine(&session, &caller.hash, now_ms);
        is_genuine.then_some(Caller { is_browser: true, ..caller })
    }

    /// A session of the page for a caller.
    pub(super) fn session(&self, caller: &Caller, now_ms: i64) -> String {
        self.key.session(&caller.name, &caller.hash, now_ms)
    }

    fn startup_caller(&self) -> Caller {
        Caller {
            name: STARTUP.to_owned(),
            tenant: TenantId::local(),
            rights: TokenRight::ALL.to_vec(),
            expires_at_ms: None,
            is_browser: false,
            hash: self.startup.hash(),
        }
    }
}

fn of_stored(token: &StoredToken) -> Caller {
    Caller {
        name: token.name.clone(),
        tenant: TenantId::new(&token.tenant),
        rights: token.rights.clone(),
        expires_at_ms: token.expires_at_ms,
        is_browser: false,
        hash: blake3::Hash::from_bytes(*token.hash.as_bytes()),
    }
}

fn refused(detail: &str, field: &str) -> Problem {
    let remedy = if field == "Cookie" {
        "open the link that the server printed when it started"
    } else {
        "send the token that the server printed as `Authorization: Bearer TOKEN`"
    };
    Problem::new(StatusCode::UNAUTHORIZED, ProblemCode::TokenRefused, detail).field(field).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posse_setup::server::NewToken;

    use super::*;

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    fn tokens() -> (tempfile::TempDir, Tokens) {
        let dir = tempfile::tempdir().expect("a directory");
        let stored = AccessFile::new(dir.path());
        (dir, Tokens::new(Token::of_text("secret"), stored))
    }

    #[test]
    fn only_the_token_itself_is_accepted() {
        let (_dir, tokens) = tokens();
        let is_accepted = |values: &[(&'static str, &str)]| tokens.caller(&headers(values), 0).is_ok();
        assert!(is_accepted(&[("authorization", "Bearer secret")]));
        for value in
            ["Bearer secre", "Bearer secret2", "secret", "bearer secret", "Basic secret", "Bearer ", ""]
        {
            assert!(!is_accepted(&[("authorization", value)]), "{value}");
        }
        assert!(!is_accepted(&[]));
        assert!(!is_accepted(&[("authorization", "Bearer secret"), ("authorization", "Bearer secret")]));
    }

    #[test]
    fn a_session_stands_for_its_token_but_not_beside_a_wrong_one() {
        let (_dir, tokens) = tokens();
        let caller = tokens.caller_of_token("secret", 0).expect("the token");
        let cookie = format!("{}={}", session::COOKIE, tokens.session(&caller, 0));
        let by_session = tokens.caller(&headers(&[("cookie", &cookie)]), 0).expect("a session");
        assert_eq!(by_session, Caller { is_browser: true, ..caller });
        let both = headers(&[("cookie", &cookie), ("authorization", "Bearer wrong")]);
        assert_eq!(tokens.caller(&both, 0).expect_err("wrong").field.as_deref(), Some("Authorization"));
        let token_as_session = headers(&[("cookie", "posse_token=secret")]);
        assert_eq!(
            tokens.caller(&token_as_session, 0).expect_err("no session").field.as_deref(),
            Some("Cookie")
        );
    }

    #[test]
    fn a_stored_token_and_its_sessions_end_when_it_expires_or_is_revoked() {
        let (dir, tokens) = tokens();
        let new = NewToken {
            name: "ci".to_owned(),
            tenant: "team".to_owned(),
            rights: vec![TokenRight::Read],
            lifetime: Some(Duration::from_secs(1)),
        };
        let text = ServerAccess::make_token(dir.path(), new, 0).expect("made");
        let caller = tokens.caller_of_token(&text, 999).expect("valid");
        assert_eq!((caller.tenant.as_str(), caller.may(TokenRight::Read)), ("team", true));
        assert!(!caller.may(TokenRight::Run) && !caller.is_operator());
        let cookie = format!("{}={}", session::COOKIE, tokens.session(&caller, 0));
        let cookie = headers(&[("cookie", &cookie)]);
        assert!(tokens.caller(&cookie, 999).is_ok());
        assert!(tokens.knows(&caller, 999) && !tokens.knows(&caller, 1_000));
        assert_eq!(tokens.caller_of_token(&text, 1_000), None, "it has expired");
        assert!(tokens.caller(&cookie, 1_000).is_err(), "and so has its session");
        ServerAccess::revoke_token(dir.path(), "ci").expect("revoked");
        assert_eq!(tokens.caller_of_token(&text, 0), None);
        assert!(!tokens.knows(&caller, 0));
        assert!(tokens.caller(&cookie, 0).is_err());
    }
}
