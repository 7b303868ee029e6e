//! The tokens of a server and the projects of its tenants: `server.json` in the state directory.
//!
//! Of a token only the hash is stored, so the file gives no reader access. A server reads the file again when it changes: a
//! token that is revoked is refused from the next request on.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posse::api::TokenRight;
use posse::ports::TenantId;
use posse_domain::hash::Hash;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

use crate::error::SetupError;
use crate::user_file::KeptFile;

const FILE: KeptFile = KeptFile {
    name: "server.json",
    lock: "server.lock",
    without: "the server accepts only the token that it prints",
};
/// Limit of tokens, also of those that have expired.
const TOKENS_MAX: usize = 1_000;
/// Limit of projects of all tenants.
const PROJECTS_MAX: usize = 1_000;
/// Longest name of a token or a tenant.
pub const NAME_MAX_BYTES: usize = 64;
/// The tenant of the user themselves, whose runs the command shows.
pub const LOCAL_TENANT: &str = "local";
/// The name of the token that a server makes for itself.
pub const STARTUP: &str = "serve";
/// The random bytes of a token.
const SECRET_BYTES: usize = 32;
/// What every token begins with, so that programs that look for secrets find it.
const PREFIX: &str = "posse_";

/// A token of which only the hash is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredToken {
    /// Its name, by which it is listed and revoked.
    pub name: String,
    /// The tenant whose runs its clients see.
    pub tenant: String,
    /// What its clients may do.
    pub rights: Vec<TokenRight>,
    /// The hash of the token.
    pub hash: Hash,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it expires; `None` if it does not.
    #[serde(default)]
    pub expires_at_ms: Option<i64>,
}

/// A project in which the clients of a tenant may start runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedProject {
    /// The tenant.
    pub tenant: String,
    /// The top directory of the project, by its whole path.
    pub dir: PathBuf,
}

/// Who may use a server, and where its clients may start runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerAccess {
    /// The tokens, oldest first.
    #[serde(default)]
    pub tokens: Vec<StoredToken>,
    /// The projects, oldest first.
    #[serde(default)]
    pub projects: Vec<AddedProject>,
}

/// A token to make.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its name.
    pub name: String,
    /// The tenant whose runs its clients see.
    pub tenant: String,
    /// What its clients may do.
    pub rights: Vec<TokenRight>,
    /// How long it is valid; `None` without an end.
    pub lifetime: Option<Duration>,
}

impl StoredToken {
    /// Whether it is no longer valid.
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|expires| now_ms >= expires)
    }
}

impl ServerAccess {
    /// Reads the file; nothing is in it if it does not exist.
    pub fn load(state_dir: &Path) -> Result<Self, SetupError> {
        Ok(FILE.read(state_dir)?)
    }

    /// The valid token with this hash.
    pub fn token(&self, hash: &Hash, now_ms: i64) -> Option<&StoredToken> {
        self.tokens.iter().find(|token| token.hash == *hash && !token.is_expired(now_ms))
    }

    /// The tenants of all tokens, and the local one.
    pub fn tenants(&self) -> Vec<TenantId> {
        let mut tenants = vec![TenantId::local()];
        tenants.extend(self.tokens.iter().map(|token| TenantId::new(&token.tenant)));
        tenants.sort();
        tenants.dedup();
        tenants
    }

    /// Makes a token and returns its text, which is stored nowhere.
    pub fn make_token(state_dir: &Path, new: NewToken, now_ms: i64) -> Result<String, SetupError> {
        check_name("the name of a token", &new.name)?;
        check_name("the name of a tenant", &new.tenant)?;
        if new.name == STARTUP {
            return Err(SetupError::usage(format!(
                "`{STARTUP}` is the token that a server makes for itself"
            ))
            .hint("choose another name"));
        }
        if new.rights.is_empty() {
            return Err(SetupError::usage("a token without rights is of no use").hint("name at least `read`"));
        }
        let text =
            format!("{PREFIX}{}", random_hex().map_err(|error| SetupError::failed(error.to_string()))?);
        let mut rights = new.rights;
        rights.sort();
        rights.dedup();
        let lifetime = new.lifetime.map(|lifetime| i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX));
        let stored = StoredToken {
            name: new.name,
            tenant: new.tenant,
            rights,
            hash: Hash::of(text.as_bytes()),
            created_at_ms: now_ms,
            expires_at_ms: lifetime.map(|lifetime| now_ms.saturating_add(lifetime)),
        };
        FILE.change(state_dir, |kept: &mut Self| {
            if kept.tokens.iter().any(|token| token.name == stored.name) {
                return Err(SetupError::usage(format!("there is a token `{}` already", stored.name))
                    .hint("revoke it first, or choose another name"));
            }
            if kept.tokens.len() >= TOKENS_MAX {
                return Err(SetupError::failed(format!("there are {TOKENS_MAX} tokens, which is the most"))
                    .hint("revoke those that are no longer used"));
            }
            kept.tokens.push(stored);
            Ok(())
        })?;
        Ok(text)
    }

    /// Revokes a token; `false` if there is none of this name.
    pub fn revoke_token(state_dir: &Path, name: &str) -> Result<bool, SetupError> {
        let mut is_revoked = false;
        FILE.change(state_dir, |kept: &mut Self| {
            let before = kept.tokens.len();
            kept.tokens.retain(|token| token.name != name);
            is_revoked = kept.tokens.len() < before;
            Ok::<_, SetupError>(())
        })?;
        Ok(is_revoked)
    }

    /// Lets the clients of a tenant start runs in a project, given by the whole path of its top directory.
    pub fn add_project(state_dir: &Path, tenant: &str, dir: &Path) -> Result<(), SetupError> {
        check_name("the name of a tenant", tenant)?;
        let added = AddedProject { tenant: tenant.to_owned(), dir: dir.to_owned() };
        FILE.change(state_dir, |kept: &mut Self| {
            if kept.projects.contains(&added) {
                return Ok(());
            }
            if kept.projects.len() >= PROJECTS_MAX {
                return Err(SetupError::failed(format!(
                    "there are {PROJECTS_MAX} projects, which is the most"
                ))
                .hint(format!("remove those that are no longer used from {}", FILE.name)));
            }
            kept.projects.push(added);
            Ok(())
        })
    }
}

/// Checks a name that is part of files, cookies and lines of a log.
fn check_name(what: &str, name: &str) -> Result<(), SetupError> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    if (1..=NAME_MAX_BYTES).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    let shown = posse_domain::printable::visible_line(name);
    Err(SetupError::usage(format!(
        "{what} has 1 to {NAME_MAX_BYTES} small letters, digits, `-` and `_`, which `{shown}` has not"
    )))
}

/// Random bytes for a secret, as hexadecimal digits.
pub fn random_hex() -> std::io::Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(Hash::from_bytes(&bytes).map(|random| random.to_string()).unwrap_or_default())
}

/// The file as a server reads it: again when it has changed.
#[derive(Debug)]
pub struct AccessFile {
    state_dir: PathBuf,
    known: Mutex<(Option<FileStamp>, Arc<ServerAccess>)>,
}

/// What changes when a file is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    modified: (i64, i64),
    bytes: u64,
}

impl AccessFile {
    /// The file of a state directory.
    pub fn new(state_dir: &Path) -> Self {
        Self { state_dir: state_dir.to_owned(), known: Mutex::default() }
    }

    /// The state directory.
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// The present content. An unreadable file gives no client access.
    pub fn current(&self) -> Result<Arc<ServerAccess>, SetupError> {
        let path = self.state_dir.join(FILE.name);
        let stamp = match fs::metadata(&path) {
            Ok(about) => Some(FileStamp {
                inode: about.ino(),
                modified: (about.mtime(), about.mtime_nsec()),
                bytes: about.len(),
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(SetupError::failed(format!("{}: {error}", path.display()))),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != stamp {
            // The stamp is older than the content: a change in between is read again.
            *known = (stamp, Arc::new(ServerAccess::load(&self.state_dir)?));
        }
        Ok(Arc::clone(&known.1))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn new(name: &str) -> NewToken {
        NewToken {
            name: name.to_owned(),
            tenant: "team".to_owned(),
            rights: vec![TokenRight::Run, TokenRight::Read, TokenRight::Run],
            lifetime: Some(Duration::from_secs(10)),
        }
    }

    #[test]
    fn a_token_is_stored_as_its_hash_and_is_valid_until_it_expires_or_is_revoked() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = AccessFile::new(dir.path());
        assert_eq!(*file.current().expect("nothing yet"), ServerAccess::default());
        let text = ServerAccess::make_token(dir.path(), new("ci"), 1_000).expect("made");
        assert!(text.starts_with(PREFIX) && text.len() == PREFIX.len() + 2 * SECRET_BYTES, "{text}");
        let path = dir.path().join(FILE.name);
        let stored = fs::read_to_string(&path).expect("text");
        assert!(!stored.contains(&text[PREFIX.len()..]), "{stored}");
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);

        let access = file.current().expect("changed");
        let found = access.token(&Hash::of(text.as_bytes()), 10_999).expect("valid");
        assert_eq!(
            (found.name.as_str(), &found.rights[..]),
            ("ci", &[TokenRight::Read, TokenRight::Run][..])
        );
        assert_eq!(access.token(&Hash::of(text.as_bytes()), 11_000), None, "it has expired");
        assert_eq!(access.token(&Hash::of(b"other"), 1_000), None);

        ServerAccess::make_token(dir.path(), new("ci"), 1_000).expect_err("the name is taken");
        assert!(ServerAccess::revoke_token(dir.path(), "ci").expect("revoked"));
        assert!(!ServerAccess::revoke_token(dir.path(), "ci").expect("gone"));
        assert!(file.current().expect("changed").tokens.is_empty());
    }

    #[test]
    fn names_are_plain() {
        let dir = tempfile::tempdir().expect("a directory");
        for wrong in ["", "A", "a b", "a.b", "../x", "a\nb", STARTUP, &"a".repeat(NAME_MAX_BYTES + 1)] {
            ServerAccess::make_token(dir.path(), new(wrong), 0).expect_err("no name");
        }
        let without = NewToken { rights: Vec::new(), ..new("ci") };
        ServerAccess::make_token(dir.path(), without, 0).expect_err("no rights");
        ServerAccess::add_project(dir.path(), "a/b", Path::new("/p")).expect_err("no name");
        assert_eq!(ServerAccess::load(dir.path()).expect("nothing"), ServerAccess::default());
    }

    #[test]
    fn a_project_is_added_once_for_its_tenant() {
        let dir = tempfile::tempdir().expect("a directory");
        for tenant in ["a", "a", "b"] {
            ServerAccess::add_project(dir.path(), tenant, Path::new("/p")).expect("added");
        }
        let access = ServerAccess::load(dir.path()).expect("access");
        let tenants: Vec<&str> = access.projects.iter().map(|project| project.tenant.as_str()).collect();
        assert_eq!(tenants, ["a", "b"]);
    }
}
