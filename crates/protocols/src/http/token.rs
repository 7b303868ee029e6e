//! The token of the server: made at its first start, and kept in the state directory for the next one, so that clients
//! continue after a restart.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use posse::atomic_file::{self, ExistingFile, PRIVATE};
use posse_setup::server::access::random_hex;

/// The file of the token in the state directory.
const FILE: &str = "serve.token";
/// The random bytes of a token.
const BYTES: usize = 32;
/// The bits of a file's mode that let others than its owner use it.
const OTHERS: u32 = 0o077;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("{path}: {error}", path = .path.display())]
    File {
        /// The file with the token.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// Others than its owner could read the file, or its content is not a token.
    #[error("{path}: {problem}", path = .path.display())]
    Unusable {
        /// The file with the token.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// The secret that a client needs.
pub(super) struct Token {
    text: String,
    hash: blake3::Hash,
}

impl Token {
    /// The token with this text.
    pub(super) fn of_text(text: &str) -> Self {
        Self { text: text.to_owned(), hash: blake3::hash(text.as_bytes()) }
    }

    /// Reads the token of a state directory, or makes one.
    pub(super) fn load(state_dir: &Path) -> Result<Self, TokenError> {
        let path = state_dir.join(FILE);
        if let Some(token) = read(&path)? {
            return Ok(token);
        }
        let failed = |error| TokenError::File { path: path.clone(), error };
        let text = random_hex().map_err(failed)?;
        match atomic_file::write(&path, PRIVATE, ExistingFile::Keep, |file| file.write_all(text.as_bytes())) {
            Ok(()) => Ok(Self::of_text(&text)),
            // Another server made one at the same moment.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                read(&path)?.ok_or_else(|| failed(error))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// The text, for the one place that shows it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The hash of the token.
    pub(super) fn hash(&self) -> blake3::Hash {
        self.hash
    }

    /// Whether a text is the token. Hashes are compared in constant time, so that the time tells nothing.
    pub(super) fn is(&self, given: &str) -> bool {
        blake3::hash(given.as_bytes()) == self.hash
    }
}

/// The token in a file; `None` without a file.
fn read(path: &Path) -> Result<Option<Token>, TokenError> {
    let failed = |error| TokenError::File { path: path.to_owned(), error };
    let unusable = |problem| TokenError::Unusable { path: path.to_owned(), problem };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & OTHERS != 0 {
        return Err(unusable(
            "other users may have read this token: delete the file, and the server makes a new one",
        ));
    }
    let text = text.trim();
    if text.len() != 2 * BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(unusable("this is not a token of the server: delete the file, and it makes a new one"));
    }
    Ok(Some(Token::of_text(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = Token::load(dir.path()).expect("made");
        let again = Token::load(dir.path()).expect("read");
        assert_eq!(first.text(), again.text());
        assert!(again.is(first.text()));
        assert!(!again.is("") && !again.is(&first.text()[1..]));
        let path = dir.path().join(FILE);
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("set");
        assert!(matches!(Token::load(dir.path()), Err(TokenError::Unusable { .. })), "others can read it");
        std::fs::write(&path, "short").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
        assert!(matches!(Token::load(dir.path()), Err(TokenError::Unusable { .. })), "not a token");
    }
}
