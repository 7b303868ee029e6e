//! Parses HTML to a document of bounded size.
//!
//! The HTML parser repairs a page, and repairs multiply: each open `<b>` is opened again, with all its attributes, in
//! every new paragraph, so a page of a hundred kilobytes can expand to billions of elements. The nesting depth bounds
//! these repairs. So the parser is fed in small pieces, and after each piece the number and depth of elements and the
//! sum of their attributes are checked. All later work (finding the article, writing Markdown) visits each part once
//! for each element around it: `Weight` bounds that product.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use dom_query::{Document, NodeData, NodeId, NodeRef};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{Attribute, ParseOpts, QualName, parse_document};

use super::limits::{PageLimit, Stop};

/// Maximum number of nodes of a document.
const NODES_MAX: usize = 200_000;
/// Maximum nesting. Real pages stay below a hundred.
const DEPTH_MAX: u32 = 256;
/// Maximum number of attributes of all elements, counting those of repaired elements again.
const ATTRIBUTES_MAX: usize = 600_000;
/// Maximum size of all attributes, counted in the same way. Real pages are smaller.
const ATTRIBUTE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How often attributes of a second `<html>` or `<body>` are merged into the first. No content is lost without them.
const MERGES_MAX: usize = 64;
/// Maximum number of nodes, each counted once for each element around it. Ten levels for each of a million, or a
/// hundred for each of a hundred thousand: many times what real pages have.
const NODE_WORK_MAX: u64 = 10_000_000;
/// Maximum size of the text, counted in the same way: 4 MB of text at level 16.
const TEXT_WORK_MAX: u64 = 64 * 1024 * 1024;
/// Maximum number of lines, each counted once for each pair of the quotations and list items around it: each of these
/// writes its mark before every line, and copies the marks of those within it. A thousand lines at level 300, or a
/// hundred thousand at level 30.
const MARK_WORK_MAX: u64 = 100_000_000;
/// How much is parsed between two checks. One piece must not multiply to much.
const PIECE_BYTES: usize = 64;

/// Like `NODE_WORK_MAX`, for a page whose article is searched: that visits each part many times and cannot be stopped.
/// A long encyclopaedia article has half of this.
const ARTICLE_NODE_WORK_MAX: u64 = NODE_WORK_MAX / 10;
/// Like `TEXT_WORK_MAX`, for a page whose article is searched.
const ARTICLE_TEXT_WORK_MAX: u64 = TEXT_WORK_MAX / 4;

/// Parses a page. Also returns whether it is small enough for the search of its article.
pub(super) fn parse(html: &str, stop: &Stop) -> Result<(Document, bool), PageLimit> {
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let mut parser =
        parse_document(MeasuredDocument::default(), ParseOpts { tree_builder, ..ParseOpts::default() });
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(PIECE_BYTES));
        parser.process(StrTendril::from(piece));
        parser.tokenizer.sink.sink.check()?;
        stop.check()?;
        rest = after;
    }
    let document = parser.finish();
    let weight = Weight::of(&document)?;
    let may_be_searched = weight.nodes <= ARTICLE_NODE_WORK_MAX && weight.text_bytes <= ARTICLE_TEXT_WORK_MAX;
    Ok((document, may_be_searched))
}

/// The cost of visiting every part of a document once for each element around it. Depths are counted again here,
/// because repairs move whole subtrees without updating the depths below.
#[derive(Debug, Default)]
struct Weight {
    nodes: u64,
    text_bytes: u64,
    marks: u64,
}

impl Weight {
    fn of(document: &Document) -> Result<Self, PageLimit> {
        let mut weight = Self::default();
        // The number of marked elements around the last node of each level, including that node.
        let mut marked = vec![0_u64; DEPTH_MAX as usize + 2];
        let mut at = Some((document.root(), 0_u32));
        while let Some((node, depth)) = at {
            if depth > DEPTH_MAX {
                return Err(PageLimit::Depth);
            }
            let level = depth as usize;
            let (text_bytes, lines, has_mark) = node.query_or((0, 1, false), |node| match &node.data {
                NodeData::Text { contents } => (contents.len() as u64, 1 + line_ends(contents), false),
                NodeData::Element(element) => (0, 1, has_mark(&element.name.local)),
                _ => (0, 1, false),
            });
            marked[level] = marked[level.saturating_sub(1)] + u64::from(has_mark);
            weight.add(u64::from(depth), text_bytes, lines * marked[level].pow(2))?;
            at = following(node, depth);
        }
        Ok(weight)
    }

    fn add(&mut self, levels: u64, text_bytes: u64, marks: u64) -> Result<(), PageLimit> {
        self.nodes += levels;
        self.text_bytes += levels * text_bytes;
        self.marks += marks;
        if self.nodes > NODE_WORK_MAX || self.text_bytes > TEXT_WORK_MAX || self.marks > MARK_WORK_MAX {
            return Err(PageLimit::Work);
        }
        Ok(())
    }
}

fn line_ends(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

/// Whether Markdown writes a mark before each line of an element.
fn has_mark(name: &str) -> bool {
    matches!(name, "blockquote" | "li")
}

/// The next node in document order, and its depth. Climbing up costs no more than going down did.
fn following(node: NodeRef<'_>, depth: u32) -> Option<(NodeRef<'_>, u32)> {
    if let Some(child) = node.first_child() {
        return Some((child, depth + 1));
    }
    let (mut node, mut depth) = (node, depth);
    loop {
        if let Some(sibling) = node.next_sibling() {
            return Some((sibling, depth));
        }
        node = node.parent()?;
        depth -= 1;
    }
}

/// A document whose depth is measured while it is built.
#[derive(Default)]
struct MeasuredDocument {
    document: Document,
    depths: RefCell<HashMap<NodeId, u32>>,
    deepest: Cell<u32>,
    attributes: Cell<usize>,
    attribute_bytes: Cell<usize>,
    merges: Cell<usize>,
}

impl MeasuredDocument {
    /// Fails once a limit is exceeded.
    fn check(&self) -> Result<(), PageLimit> {
        if self.deepest.get() > DEPTH_MAX {
            Err(PageLimit::Depth)
        } else if self.document.tree.len() > NODES_MAX {
            Err(PageLimit::Nodes)
        } else if self.has_too_many_attributes() {
            Err(PageLimit::Attributes)
        } else {
            Ok(())
        }
    }

    fn has_too_many_attributes(&self) -> bool {
        self.attributes.get() > ATTRIBUTES_MAX || self.attribute_bytes.get() > ATTRIBUTE_BYTES_MAX
    }

    /// Counts the attributes of an element. Beyond the limits it drops them, so that even the last piece takes no more
    /// memory.
    fn counted(&self, attrs: Vec<Attribute>) -> Vec<Attribute> {
        let bytes: usize = attrs.iter().map(|attr| attr.name.local.len() + attr.value.len()).sum();
        self.attributes.set(self.attributes.get() + attrs.len());
        self.attribute_bytes.set(self.attribute_bytes.get() + bytes);
        if self.has_too_many_attributes() { Vec::new() } else { attrs }
    }

    fn depth(&self, node: NodeId) -> u32 {
        self.depths.borrow().get(&node).copied().unwrap_or(0)
    }

    fn insert(&self, child: &NodeOrText<NodeId>, depth: u32) {
        if let NodeOrText::AppendNode(node) = child {
            self.depths.borrow_mut().insert(*node, depth);
            self.deepest.set(self.deepest.get().max(depth));
        }
    }
}

impl TreeSink for MeasuredDocument {
    type Handle = NodeId;
    type Output = Document;
    type ElemName<'a> = <Document as TreeSink>::ElemName<'a>;

    fn finish(self) -> Document {
        self.document
    }

    /// Discarded: parse errors are never read, and a hostile page has many.
    fn parse_error(&self, _: Cow<'static, str>) {}

    fn append(&self, parent: &NodeId, child: NodeOrText<NodeId>) {
        self.insert(&child, self.depth(*parent) + 1);
        self.document.append(parent, child);
    }

    fn append_before_sibling(&self, sibling: &NodeId, child: NodeOrText<NodeId>) {
        self.insert(&child, self.depth(*sibling));
        self.document.append_before_sibling(sibling, child);
    }

    fn append_based_on_parent_node(&self, element: &NodeId, before: &NodeId, child: NodeOrText<NodeId>) {
        self.insert(&child, self.depth(*before) + 1);
        self.document.append_based_on_parent_node(element, before, child);
    }

    fn reparent_children(&self, node: &NodeId, new_parent: &NodeId) {
        self.document.reparent_children(node, new_parent);
    }

    fn get_template_contents(&self, target: &NodeId) -> NodeId {
        let contents = self.document.get_template_contents(target);
        self.insert(&NodeOrText::AppendNode(contents), self.depth(*target) + 1);
        contents
    }

    fn get_document(&self) -> NodeId {
        self.document.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a NodeId) -> Self::ElemName<'a> {
        self.document.elem_name(target)
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> NodeId {
        self.document.create_element(name, self.counted(attrs), flags)
    }

    fn create_comment(&self, text: StrTendril) -> NodeId {
        self.document.create_comment(text)
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> NodeId {
        self.document.create_pi(target, data)
    }

    fn append_doctype_to_document(&self, name: StrTendril, public_id: StrTendril, system_id: StrTendril) {
        self.document.append_doctype_to_document(name, public_id, system_id);
    }

    fn same_node(&self, one: &NodeId, other: &NodeId) -> bool {
        self.document.same_node(one, other)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.document.set_quirks_mode(mode);
    }

    fn add_attrs_if_missing(&self, target: &NodeId, attrs: Vec<Attribute>) {
        self.merges.set(self.merges.get() + 1);
        if self.merges.get() <= MERGES_MAX {
            self.document.add_attrs_if_missing(target, self.counted(attrs));
        }
    }

    fn remove_from_parent(&self, target: &NodeId) {
        self.document.remove_from_parent(target);
    }

    fn is_mathml_annotation_xml_integration_point(&self, node: &NodeId) -> bool {
        self.document.is_mathml_annotation_xml_integration_point(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formatting elements that all differ, so that the parser keeps all of them.
    fn formatting(count: usize) -> String {
        (0..count).map(|n| format!("<b x={n}>")).collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_page_that_multiplies_is_given_up() {
        use PageLimit::{Attributes, Depth, Nodes, Work};
        let long = "c".repeat(100_000);
        let wide = |count: usize| (0..count).map(|n| format!(" a{n}")).collect::<Vec<_>>().concat();
        let wide_formatting =
            (0..100).map(|n| format!("<b x={n}{}>", wide(300))).collect::<Vec<_>>().concat();
        for (name, bomb, why) in [
            ("nested blocks", "<div>".repeat(100_000), Depth),
            ("nested links", "<a href=x>".repeat(210_000), Nodes),
            ("formatting in blocks", formatting(50_000) + &"<p>x".repeat(50_000), Depth),
            (
                "formatting that a block closes",
                format!("<p>{}</p>", formatting(50_000)) + &"<p>x".repeat(50_000),
                Depth,
            ),
            (
                "formatting in a table",
                format!("<table>{}", formatting(50_000)) + &"<p>x".repeat(50_000),
                Depth,
            ),
            (
                "a table's end",
                format!("<table><tr><td>{}</table>", formatting(50_000)) + &"<p>x".repeat(50_000),
                Depth,
            ),
            ("nested tables", format!("{}</table>", "<table><tr><td>".repeat(50_000)), Depth),
            ("nested templates", "<template>".repeat(50_000), Depth),
            ("nested pictures", "<svg><g>".repeat(50_000), Depth),
            ("breaks", "<br>".repeat(250_000), Nodes),
            ("paragraphs", "<p>x".repeat(150_000), Nodes),
            ("comments", "<!---->".repeat(250_000), Nodes),
            (
                "a long class in every repair",
                format!("<p><b class={long}></p>") + &"<p>x".repeat(5_000),
                Attributes,
            ),
            (
                "many attributes in every repair",
                format!("<p><b{}></p>", wide(1_900)) + &"<p>x".repeat(5_000),
                Attributes,
            ),
            (
                "wide formatting, nested",
                format!("<p>{wide_formatting}</p>") + &"<p>x".repeat(5_000),
                Attributes,
            ),
            ("elements on the deepest level", "<div>".repeat(200) + &"<i></i>".repeat(90_000), Work),
            ("text on the deepest level", "<div>".repeat(250) + &"word ".repeat(200_000), Work),
            (
                "lines in nested quotations",
                "<blockquote>".repeat(240) + "<pre>" + &"\n".repeat(2_000_000),
                Work,
            ),
            ("lines in nested lists", "<ul><li>".repeat(110) + &"<p>x".repeat(60_000), Work),
            (
                "few lines in nested quotations",
                "<blockquote>".repeat(200) + "<pre>" + &"\n".repeat(300_000),
                Work,
            ),
            ("paragraphs in nested quotations", "<blockquote>".repeat(200) + &"<p>x".repeat(24_000), Work),
            ("quotations in nested lists", "<ul><li><blockquote>".repeat(60) + &"<p>x".repeat(20_000), Work),
        ] {
            assert_eq!(parse(&bomb, &Stop::default()).err(), Some(why), "{name}");
        }
    }

    #[test]
    fn attributes_added_to_the_first_body_are_not_compared_without_end() {
        let merged = (0..20_000).map(|n| format!("<body a{n}>")).collect::<Vec<_>>().concat();
        let (document, _) = parse(&(merged + "<p>x"), &Stop::default()).expect("a page");
        assert_eq!(document.body().map(|body| body.attrs().len()), Some(1 + MERGES_MAX));
        assert_eq!(document.select("p").text().as_ref(), "x");
    }

    #[test]
    fn nesting_that_repairs_make_is_counted() {
        // Each closing tag outside of its block wraps the block's content once more.
        let wrapped = format!("{}<p>x{}", formatting(200), "</b>".repeat(200)).repeat(60);
        let parsed = parse(&wrapped, &Stop::default());
        let deepest = |document: &Document| {
            let mut at = Some((document.root(), 0));
            let mut deepest = 0;
            while let Some((node, depth)) = at {
                deepest = deepest.max(depth);
                at = following(node, depth);
            }
            deepest
        };
        assert!(
            parsed
                .as_ref()
                .map_or_else(|why| *why == PageLimit::Depth, |(document, _)| deepest(document) <= DEPTH_MAX)
        );
    }

    #[test]
    fn a_page_that_is_no_longer_wanted_is_not_parsed() {
        let stop = Stop::default();
        stop.set();
        assert_eq!(parse("<p>x", &stop).err(), Some(PageLimit::Stopped));
    }

    #[test]
    fn what_is_just_within_the_limits_is_worked_on() {
        for html in [
            "<div>".repeat(250) + "x",
            formatting(200) + &"<p>x".repeat(200),
            "<p>word <b>bold</b> ".repeat(30_000),
            "<table><tr><td>".repeat(60) + "x",
            "<ul><li>".repeat(120) + "x",
            "<blockquote>".repeat(240) + "x",
            "<blockquote>".repeat(10) + "<pre>" + &"word\n".repeat(100_000),
            "<ul><li>".repeat(10) + &"<li>word".repeat(50_000),
        ] {
            let converted = super::super::markdown::convert(&html, "https://example.org/", &Stop::default());
            let Ok((_, text)) = converted else { panic!("{}", &html[..60]) };
            assert!(text.contains('x') || text.contains("word"), "{}", &html[..60]);
        }
    }
}
