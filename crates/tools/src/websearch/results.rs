//! Formats search results for a model.

use posse_domain::text::shorten;
use posse_egress::Target;
use serde_json::Value;

use super::one_line;
use crate::webfetch::clean;

/// Maximum length of a result's title and excerpt.
const TITLE_MAX_CHARS: usize = 200;
const EXCERPT_MAX_CHARS: usize = 500;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct SearchResult {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) excerpt: String,
}

/// Parses a provider's list. Entries that are not web results are skipped.
pub(super) fn read(list: &[Value], excerpt: &str) -> Vec<SearchResult> {
    let text = |item: &Value, field: &str, max: usize| {
        let text = item.get(field).and_then(Value::as_str).unwrap_or_default();
        // Shortened generously first, because the rest is not worth processing.
        shorten(&one_line(&clean(&plain(&shorten(text, max * 8)))), max)
    };
    list.iter()
        .filter_map(|item| {
            let url = Target::parse(item.get("url")?.as_str()?).ok()?.to_string();
            let title = Some(text(item, "title", TITLE_MAX_CHARS)).filter(|title| !title.is_empty());
            let excerpt = text(item, excerpt, EXCERPT_MAX_CHARS);
            Some(SearchResult { title: title.unwrap_or_else(|| url.clone()), url, excerpt })
        })
        .collect()
}

/// Text without the marks that providers put around matches.
fn plain(text: &str) -> String {
    let mut plain = text.to_owned();
    for mark in ["<strong>", "</strong>", "<b>", "</b>", "<em>", "</em>"] {
        plain = plain.replace(mark, "");
    }
    // `&amp;` comes last: `&amp;lt;` is `&lt;`.
    for (entity, letter) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&#39;", "'"), ("&amp;", "&")]
    {
        plain = plain.replace(entity, letter);
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_plain_and_short() {
        let list = [
            json!({"url": "https://Example.org/a", "title": "A <strong>b</strong>\n&amp;lt; \u{1b}[1m", "x": "c &quot;d&quot;"}),
            json!({"url": "https://example.org/b", "x": "y".repeat(100_000)}),
            json!({"url": "javascript:alert(1)", "title": "no"}),
            json!({"url": 1}),
            json!("no"),
            json!(null),
        ];
        let found = read(&list, "x");
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[0],
            SearchResult {
                title: "A b &lt; [1m".to_owned(),
                url: "https://example.org/a".to_owned(),
                excerpt: "c \"d\"".to_owned()
            }
        );
        assert_eq!(found[1].title, "https://example.org/b");
        assert!(found[1].excerpt.chars().count() < 510);
    }
}
