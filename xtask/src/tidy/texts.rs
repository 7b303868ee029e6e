//! Checks that no text of the project names folders of one machine or hosts that serve packages.
//!
//! The needles are assembled from halves so that this file does not breach its own rule.

use super::Breach;
use super::mask::is_word;

const MACHINE_FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

const REGISTRY_HOSTS: &[&str] = &[
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("registry.npm", "js.org"),
    concat!("registry.yarn", "pkg.com"),
    concat!("files.python", "hosted.org"),
    concat!("py", "pi.org"),
    concat!("proxy.go", "lang.org"),
];

pub(crate) fn check(path: &str, text: &str) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = || format!("{path}:{}", number + 1);
        if let Some(folder) = MACHINE_FOLDERS.iter().find(|folder| names_folder(line, folder)) {
            breaches.push(Breach {
                place: place(),
                rule: "machine-path",
                found: format!("`{folder}`"),
                why: "the project must read and run the same on every machine",
            });
        }
        if let Some(host) = REGISTRY_HOSTS.iter().find(|host| line.contains(**host)) {
            breaches.push(Breach {
                place: place(),
                rule: "registry-host",
                found: format!("`{host}`"),
                why: "where packages come from is the builder's setting, not the project's",
            });
        }
    }
    breaches
}

/// An absolute path only: in `src/work/x`, `~/work/` or `{dir}/work/` something precedes the slash.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !is_word(c) && !"-.~*})>$".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<(String, &'static str)> {
        check("README.md", text).into_iter().map(|breach| (breach.place, breach.rule)).collect()
    }

    #[test]
    fn an_absolute_machine_folder_is_a_breach() {
        let folder = MACHINE_FOLDERS[0];
        assert_eq!(rules(&format!("fine\ncd {folder}main")), [("README.md:2".to_owned(), "machine-path")]);
        assert_eq!(rules(&format!("\"file://{folder}main\"")).len(), 1);
        assert_eq!(rules(&format!("{}x", MACHINE_FOLDERS[1])).len(), 1);
    }

    #[test]
    fn the_same_words_inside_another_path_are_not() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(rules(&format!("src{folder}x ~{folder}x {{dir}}{folder}x **{folder}x")), []);
        }
        assert_eq!(rules("the workspace/ of a root agent, /workspace/x"), []);
    }

    #[test]
    fn a_registry_host_is_a_breach_and_the_index_name_of_a_lock_file_is_not() {
        assert_eq!(rules(&format!("https://{}/x", REGISTRY_HOSTS[0])).len(), 1);
        assert_eq!(rules("source = \"registry+https://github.com/rust-lang/crates.io-index\""), []);
    }
}
