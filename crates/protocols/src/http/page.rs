//! The files of the page that people use in a browser: the bundle in `crates/protocols/page`, which `cargo xtask web`
//! builds from `web/`. They are part of the program, so that neither a build nor a server needs anything else.
//!
//! Why it is like this: `docs/decisions/page-bundle.md`.

use std::io::Write;
use std::sync::{LazyLock, OnceLock};

use axum::body::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The file that a browser gets first. Each place of the page is after the `#` of its address.
const INDEX: &str = "index.html";
/// Where the files are whose names change with their content.
const NAMED_BY_CONTENT: &str = "assets/";

/// A file of the page.
#[derive(Debug)]
pub(super) struct Asset {
    /// Its path in the bundle.
    name: &'static str,
    /// Its media type, with the character set of a text.
    pub(super) content_type: &'static str,
    /// Its content.
    pub(super) bytes: &'static [u8],
    /// The same, compressed when the first browser asks for it.
    compressed: OnceLock<Bytes>,
}

/// A row of `files.in`, which the bundler writes.
macro_rules! asset {
    ($name:literal, $content_type:literal) => {
        Asset {
            name: $name,
            content_type: $content_type,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/", $name)),
            compressed: OnceLock::new(),
        }
    };
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| include!("../../page/files.in").into());

impl Asset {
    /// Whether its name changes with its content, so that a browser need never ask for it again.
    pub(super) fn is_named_by_content(&self) -> bool {
        self.name.starts_with(NAMED_BY_CONTENT)
    }

    /// Its content for a client that accepts gzip.
    pub(super) fn compressed(&self) -> Bytes {
        let compress = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Writing into memory does not fail.
            let _ = encoder.write_all(self.bytes);
            encoder.finish().unwrap_or_default().into()
        };
        self.compressed.get_or_init(compress).clone()
    }
}

/// The file at a path, which begins with `/` and is not beneath `/api/`.
pub(super) fn page(path: &str) -> Option<&'static Asset> {
    let name = match path.strip_prefix('/')? {
        "" => INDEX,
        name => name,
    };
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most that a browser loads for the page.
    const PAGE_MAX_BYTES: usize = 200 * 1024;

    fn text(asset: &Asset) -> &str {
        std::str::from_utf8(asset.bytes).unwrap_or_else(|_| panic!("{} is no text", asset.name))
    }

    #[test]
    fn the_page_is_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.compressed().len()).sum();
        assert!((1..=PAGE_MAX_BYTES).contains(&bytes), "the page has {bytes} bytes");
    }

    #[test]
    fn every_file_that_the_page_names_is_there() {
        let index = page("/").expect("the index");
        assert!(!index.is_named_by_content());
        let html = text(index);
        let named: Vec<&str> = ["src=\"", "href=\""]
            .iter()
            .flat_map(|before| html.split(before).skip(1).filter_map(|rest| rest.split('"').next()))
            .collect();
        assert!(named.len() >= 3, "a script, a style sheet and an icon: {named:?}");
        for path in named {
            let asset = page(path).unwrap_or_else(|| panic!("{path}"));
            assert!(asset.is_named_by_content(), "{path}");
        }
        assert!(page("/index.html").is_some() && page("index.html").is_none() && page("/nothing").is_none());
    }

    #[test]
    fn the_policy_of_the_page_forbids_nothing_that_it_has() {
        let html = text(page("/").expect("the index"));
        assert!(!html.contains("<style") && !html.contains(" style="), "{html}");
        assert!(html.split("<script").skip(1).all(|script| script.contains(" src=\"/assets/")), "{html}");
        for script in ASSETS.iter().filter(|asset| asset.content_type.starts_with("text/javascript")) {
            let code = text(script);
            for forbidden in ["eval(", "new Function(", "javascript:"] {
                assert!(!code.contains(forbidden), "{}: {forbidden}", script.name);
            }
        }
    }
}
