//! Converts HTML to Markdown.

use dom_query::Document;
use dom_smoothie::{Config, Readability, TextMode};

use super::limits::{PageLimit, Stop};
use super::{dom, tags};

/// If the article has less than this part of the page's text (one in four), the whole page is used. An overview or an
/// API reference is not an article, and losing most of it is worse than keeping its menus.
const ARTICLE_MIN_SHARE: usize = 4;
/// Elements without readable content.
const SILENT: [&str; 12] = [
    "head", "script", "style", "meta", "noscript", "template", "svg", "iframe", "nav", "form", "button",
    "dialog",
];

/// The title, if there is one, and the main content of a page. The limits of `dom::parse` bound all later work, and
/// each part of it starts only if the caller still waits.
pub(super) fn convert(html: &str, url: &str, stop: &Stop) -> Result<(Option<String>, String), PageLimit> {
    tags::check(html, stop)?;
    let (document, may_be_searched) = dom::parse(html, stop)?;
    let title = document.select_single("title").text().trim().to_owned();
    let title = Some(title).filter(|title| !title.is_empty());
    stop.check()?;
    let whole = document.body().map(|body| body.md(Some(&SILENT)).trim().to_owned()).unwrap_or_default();
    stop.check()?;
    if !may_be_searched {
        return Ok((title, whole));
    }
    let article = article(document, url).filter(|article| article.len() * ARTICLE_MIN_SHARE >= whole.len());
    Ok((title, article.unwrap_or(whole)))
}

fn article(document: Document, url: &str) -> Option<String> {
    let config = Config { text_mode: TextMode::Markdown, disable_json_ld: true, ..Config::default() };
    let mut readability = Readability::with_document(document, Some(url), Some(config)).ok()?;
    let text = readability.parse().ok()?.text_content.trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(html: &str) -> String {
        convert(html, "https://example.org/a/b", &Stop::default()).unwrap().1
    }

    #[test]
    fn an_article_is_found_among_what_surrounds_it() {
        let paragraph =
            "A sentence that says something, at some length, and then goes on for a while. ".repeat(8);
        let html = format!(
            "<html><head><title>On things | Site</title><script>var x = 1;</script></head><body>\
             <nav><a href=/home>Home</a></nav><div class=sidebar><a href=/ad>Buy</a></div>\
             <article><h1>On things</h1><p>{paragraph}</p><h2>More</h2><p>See <a href='../c'>here</a>. {paragraph}</p>\
             <pre><code>let a = 1;</code></pre><ul><li>one</li><li>two</li></ul></article>\
             <footer>Copyright</footer></body></html>"
        );
        let (title, text) = convert(&html, "https://example.org/a/b", &Stop::default()).unwrap();
        assert_eq!(title.as_deref(), Some("On things | Site"));
        assert!(text.contains("## More") && text.contains("let a = 1;"), "{text}");
        assert!(text.contains("[here](https://example.org/c)"), "{text}");
        for noise in ["Buy", "Home", "Copyright", "var x"] {
            assert!(!text.contains(noise), "{noise}: {text}");
        }
    }

    #[test]
    fn the_article_of_a_page_that_is_too_large_to_search_is_not_looked_for() {
        let paragraph =
            "<p>A sentence that says something, at some length, and then goes on for a while.</p>".repeat(8);
        let page = |articles: usize| {
            let (articles, around) = (paragraph.repeat(articles), "<div>".repeat(20));
            text(&format!(
                "<div class=sidebar><a href=/ad>Buy</a></div>{around}<article>{articles}</article>"
            ))
        };
        assert!(!page(10).contains("Buy"));
        // 800 KB of paragraphs, 25 levels down.
        assert!(page(1_200).contains("Buy"));
    }

    #[test]
    fn a_page_that_is_no_article_is_kept_whole() {
        let links: Vec<String> = (0..50).map(|n| format!("<li><a href=/{n}>Chapter {n}</a></li>")).collect();
        let text = text(&format!("<body><h1>Index</h1><ul>{}</ul></body>", links.concat()));
        assert!(text.contains("Index") && text.contains("Chapter 49"), "{text}");
    }

    #[test]
    fn short_odd_and_empty_pages_do_no_harm() {
        assert_eq!(text("<p>Hi"), "Hi");
        assert_eq!(text(""), "");
        assert_eq!(text("<html><head><title>x</title></head><body></body></html>"), "");
        assert_eq!(text("plain"), "plain");
        text("<table><tr><td><table><p></table></p></b></i></td>");
        text(&"</div>".repeat(1000));
    }
}
