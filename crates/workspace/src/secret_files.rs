//! Names of files and directories in which users keep keys. A snapshot of a user's folder omits them, unless git tracks them
//! or `workspace.copy` names them: a user who starts a run in a folder does not mean to show their keys to agents.

/// Directories of keys, at any depth.
const DIRS: [&str; 6] = [".ssh", ".aws", ".gnupg", ".kube", ".azure", ".password-store"];
/// The directory of keys that only its path tells from others.
const GCLOUD: &str = ".config/gcloud";
/// Files of keys, at any depth.
const FILES: [&str; 11] = [
    ".netrc",
    "_netrc",
    ".pgpass",
    ".pypirc",
    ".git-credentials",
    ".vault-token",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
];

/// Whether a directory, given by its path without the final slash, holds keys.
pub(crate) fn is_secret_dir(path: &[u8]) -> bool {
    let is_gcloud =
        path.strip_suffix(GCLOUD.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"/"));
    is_gcloud || DIRS.iter().any(|dir| dir.as_bytes() == name(path))
}

/// Whether a file holds keys.
pub(crate) fn is_secret_file(path: &[u8]) -> bool {
    FILES.iter().any(|file| file.as_bytes() == name(path))
}

/// Whether a path names a file of keys, or something in a directory of keys.
pub fn is_secret_path(path: &str) -> bool {
    let path = path.trim_end_matches('/').as_bytes();
    let ends = (0..=path.len()).filter(|end| *end == path.len() || path[*end] == b'/');
    is_secret_file(path) || ends.into_iter().any(|end| is_secret_dir(&path[..end]))
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_recognised_by_their_whole_name() {
        for dir in [".ssh", "home/.aws", ".config/gcloud", "a/.config/gcloud"] {
            assert!(is_secret_dir(dir.as_bytes()), "{dir}");
        }
        for dir in ["ssh", ".sshd", "src", "my.config/gcloud", "gcloud", ".config"] {
            assert!(!is_secret_dir(dir.as_bytes()), "{dir}");
        }
        for path in [".ssh/config", "home/.aws/", "a/.config/gcloud/x/y", "keys/id_rsa"] {
            assert!(is_secret_path(path), "{path}");
        }
        for path in ["src/.sshd/x", "id_rsa/readme", "", "a.txt"] {
            assert!(!is_secret_path(path), "{path}");
        }
        assert!(is_secret_file(b"keys/id_rsa") && is_secret_file(b".netrc"));
        assert!(!is_secret_file(b"id_rsa.pub") && !is_secret_file(b"docs/netrc") && !is_secret_file(b".env"));
    }
}
