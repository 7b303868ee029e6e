//! A document that cannot grow out of hand.
//!
//! Parsing HTML repairs it, and repairs multiply: each open `<b>` is opened again in every new paragraph, so a page of
//! a hundred kilobytes can ask for billions of elements. What there is to repair is bounded by how deep elements nest.
//! So the parser is fed in small pieces, and after each the number and the depth of elements are looked at.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use dom_query::{Document, NodeId};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{Attribute, ParseOpts, QualName, parse_document};

use super::markdown::TooComplex;

/// Most nodes of a document.
const NODES_MAX: usize = 200_000;
/// Deepest nesting. Pages of people stay below a hundred.
const DEPTH_MAX: u32 = 256;
/// How much is parsed between two looks.
const PIECE_BYTES: usize = 512;

/// Parses a page.
pub(super) fn parse(html: &str) -> Result<Document, TooComplex> {
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let mut parser = parse_document(Watched::default(), ParseOpts { tree_builder, ..ParseOpts::default() });
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(PIECE_BYTES));
        parser.process(StrTendril::from(piece));
        let watched = &parser.tokenizer.sink.sink;
        if watched.deepest.get() > DEPTH_MAX || watched.document.tree.len() > NODES_MAX {
            return Err(TooComplex);
        }
        rest = after;
    }
    Ok(parser.finish())
}

/// A document whose depth is known while it is built.
#[derive(Default)]
struct Watched {
    document: Document,
    depths: RefCell<HashMap<NodeId, u32>>,
    deepest: Cell<u32>,
}

impl Watched {
    fn depth(&self, node: NodeId) -> u32 {
        self.depths.borrow().get(&node).copied().unwrap_or(0)
    }

    fn place(&self, child: &NodeOrText<NodeId>, depth: u32) {
        if let NodeOrText::AppendNode(node) = child {
            self.depths.borrow_mut().insert(*node, depth);
            self.deepest.set(self.deepest.get().max(depth));
        }
    }
}

impl TreeSink for Watched {
    type Handle = NodeId;
    type Output = Document;
    type ElemName<'a> = <Document as TreeSink>::ElemName<'a>;

    fn finish(self) -> Document {
        self.document
    }

    /// Nobody reads them, and a hostile page has many.
    fn parse_error(&self, _: Cow<'static, str>) {}

    fn append(&self, parent: &NodeId, child: NodeOrText<NodeId>) {
        self.place(&child, self.depth(*parent) + 1);
        self.document.append(parent, child);
    }

    fn append_before_sibling(&self, sibling: &NodeId, child: NodeOrText<NodeId>) {
        self.place(&child, self.depth(*sibling));
        self.document.append_before_sibling(sibling, child);
    }

    fn append_based_on_parent_node(&self, element: &NodeId, before: &NodeId, child: NodeOrText<NodeId>) {
        self.place(&child, self.depth(*before) + 1);
        self.document.append_based_on_parent_node(element, before, child);
    }

    fn reparent_children(&self, node: &NodeId, new_parent: &NodeId) {
        self.document.reparent_children(node, new_parent);
    }

    fn get_template_contents(&self, target: &NodeId) -> NodeId {
        let contents = self.document.get_template_contents(target);
        self.place(&NodeOrText::AppendNode(contents), self.depth(*target) + 1);
        contents
    }

    fn get_document(&self) -> NodeId {
        self.document.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a NodeId) -> Self::ElemName<'a> {
        self.document.elem_name(target)
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> NodeId {
        self.document.create_element(name, attrs, flags)
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
        self.document.add_attrs_if_missing(target, attrs);
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

    /// Formatting elements that are all different, so that the parser keeps all of them.
    fn formatting(count: usize) -> String {
        (0..count).map(|n| format!("<b x={n}>")).collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_page_that_multiplies_is_given_up() {
        for bomb in [
            "<div>".repeat(100_000),
            "<a href=x>".repeat(300_000),
            formatting(50_000) + &"<p>x".repeat(50_000),
            format!("<p>{}</p>", formatting(50_000)) + &"<p>x".repeat(50_000),
            format!("<table>{}", formatting(50_000)) + &"<p>x".repeat(50_000),
            format!("<table><tr><td>{}</table>", formatting(50_000)) + &"<p>x".repeat(50_000),
            format!("{}</table>", "<table><tr><td>".repeat(50_000)),
            "<template>".repeat(50_000),
            "<svg><g>".repeat(50_000),
            "<br>".repeat(1_000_000),
            "<p>x".repeat(1_000_000),
            "<!---->".repeat(700_000),
        ] {
            assert_eq!(parse(&bomb).err(), Some(TooComplex), "{}", &bomb[..60]);
        }
    }

    #[test]
    fn what_is_just_within_the_limits_is_worked_on() {
        for html in [
            "<div>".repeat(250) + "x",
            formatting(200) + &"<p>x".repeat(300),
            "<p>word <b>bold</b> ".repeat(30_000),
            "<table><tr><td>".repeat(60) + "x",
            "<ul><li>".repeat(120) + "x",
            "<blockquote>".repeat(240) + "x",
        ] {
            let converted = super::super::markdown::convert(&html, "https://example.org/");
            let Ok((_, text)) = converted else { panic!("{}", &html[..60]) };
            assert!(text.contains('x') || text.contains("word"), "{}", &html[..60]);
        }
    }
}
