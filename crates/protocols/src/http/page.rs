//! The files of the page that people use in a browser.

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asset {
    /// Its media type, with the character set of a text.
    pub(super) content_type: &'static str,
    /// Its content.
    pub(super) bytes: &'static [u8],
    /// Whether its name changes with its content, so that a browser need never ask for it again.
    pub(super) is_named_by_content: bool,
}

/// What is shown without a page.
const WELCOME: &str = "This is a server of Posse.\n\nThe API is beneath /api/v1, and /api/openapi.json describes it. \
                       Send the token of the server as `Authorization: Bearer TOKEN`.\n";

/// The file at a path, which begins with `/` and is not beneath `/api/`.
pub(super) fn page(path: &str) -> Option<Asset> {
    (path == "/").then_some(Asset {
        content_type: "text/plain; charset=utf-8",
        bytes: WELCOME.as_bytes(),
        is_named_by_content: false,
    })
}
