//! Counts the attributes of a page's tags before the page is parsed, to bound the tokenizer's work.
//!
//! HTML's tokenizer compares each attribute of a tag with all before it, and emits a tag only at its end: a tag of
//! 500,000 attributes is 125 thousand million comparisons that nothing can interrupt. So they are counted first. Only a
//! parser can tell a tag from the text of a script or a comment, but every tag begins with `<` and a letter, or `</`
//! and a letter, and its structure is a machine of nine states. All positions that could begin a tag are followed at
//! once: for each state, the highest number of attributes of any of them. That takes one pass, and the result is never
//! less than the tokenizer's count.

use super::limits::{PageLimit, Stop};

/// Maximum number of attributes of one tag. Real pages have a few dozen. Script text that looks like a tag can have
/// hundreds.
const TAG_ATTRIBUTES_MAX: u64 = 2_000;
/// Maximum number of comparisons of attributes in a page: seconds, even in a build without optimisation.
const COMPARISONS_MAX: u64 = 50_000_000;
/// How much is read between two checks whether the caller still waits.
const STOP_BYTES: usize = 64 * 1024;

/// The tokenizer's state within a tag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TagState {
    Name,
    BeforeAttribute,
    AttributeName,
    AfterAttributeName,
    BeforeValue,
    DoubleQuoted,
    SingleQuoted,
    Unquoted,
    AfterQuoted,
}

const STATES: [TagState; 9] = [
    TagState::Name,
    TagState::BeforeAttribute,
    TagState::AttributeName,
    TagState::AfterAttributeName,
    TagState::BeforeValue,
    TagState::DoubleQuoted,
    TagState::SingleQuoted,
    TagState::Unquoted,
    TagState::AfterQuoted,
];

/// The effect of a byte on a state.
enum Step {
    To(TagState),
    /// Begins the name of another attribute.
    Attribute,
    End,
}

impl TagState {
    fn step(self, byte: u8) -> Step {
        let blank = matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ');
        match (self, byte) {
            (TagState::DoubleQuoted, b'"') | (TagState::SingleQuoted, b'\'') => {
                Step::To(TagState::AfterQuoted)
            }
            (TagState::DoubleQuoted | TagState::SingleQuoted, _) => Step::To(self),
            (TagState::BeforeValue, b'"') => Step::To(TagState::DoubleQuoted),
            (TagState::BeforeValue, b'\'') => Step::To(TagState::SingleQuoted),
            (_, b'>') => Step::End,
            (TagState::BeforeValue, _) if blank => Step::To(TagState::BeforeValue),
            (TagState::BeforeValue, _) => Step::To(TagState::Unquoted),
            (TagState::AttributeName | TagState::AfterAttributeName, _) if blank => {
                Step::To(TagState::AfterAttributeName)
            }
            (_, _) if blank => Step::To(TagState::BeforeAttribute),
            (TagState::Unquoted, _) => Step::To(TagState::Unquoted),
            (_, b'/') => Step::To(TagState::BeforeAttribute),
            (TagState::AttributeName | TagState::AfterAttributeName, b'=') => Step::To(TagState::BeforeValue),
            (TagState::Name | TagState::AttributeName, _) => Step::To(self),
            (TagState::BeforeAttribute | TagState::AfterAttributeName | TagState::AfterQuoted, _) => {
                Step::Attribute
            }
        }
    }
}

/// Refuses a page whose tags can have too many attributes to tokenize in time.
pub(super) fn check(html: &str, stop: &Stop) -> Result<(), PageLimit> {
    let bytes = html.as_bytes();
    let mut comparisons = 0;
    // The highest number of attributes of a tag in each state. None if no tag can be in that state.
    let mut most: [Option<u64>; STATES.len()] = [None; STATES.len()];
    let mut is_outside = true;
    for (at, byte) in bytes.iter().copied().enumerate() {
        if at % STOP_BYTES == 0 {
            stop.check()?;
        }
        if byte == b'<' && begins_tag(&bytes[at + 1..]) {
            // The effect of this byte on open tags follows below.
            let mut next = step(&most, byte, &mut comparisons)?;
            let name = &mut next[TagState::Name as usize];
            *name = Some(name.unwrap_or(0));
            (most, is_outside) = (next, false);
        } else if !is_outside {
            most = step(&most, byte, &mut comparisons)?;
            is_outside = most.iter().all(Option::is_none);
        }
    }
    Ok(())
}

fn begins_tag(after: &[u8]) -> bool {
    matches!(after, [b'/', letter, ..] | [letter, ..] if letter.is_ascii_alphabetic())
}

/// All states after a byte.
fn step(
    most: &[Option<u64>; STATES.len()],
    byte: u8,
    comparisons: &mut u64,
) -> Result<[Option<u64>; STATES.len()], PageLimit> {
    let mut next = [None; STATES.len()];
    let mut ended = 0;
    for (state, count) in STATES.iter().zip(most).filter_map(|(state, count)| Some((state, (*count)?))) {
        let (to, count) = match state.step(byte) {
            Step::To(to) => (to, count),
            Step::Attribute => (TagState::AttributeName, count + 1),
            Step::End => {
                ended = ended.max(count);
                continue;
            }
        };
        if count > TAG_ATTRIBUTES_MAX {
            return Err(PageLimit::Attributes);
        }
        let place: &mut Option<u64> = &mut next[to as usize];
        *place = (*place).max(Some(count));
    }
    *comparisons += ended * ended / 2;
    if *comparisons > COMPARISONS_MAX {
        return Err(PageLimit::Attributes);
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(count: usize, write: impl Fn(usize) -> String) -> String {
        (0..count).map(write).collect()
    }

    #[test]
    fn a_tag_with_too_many_attributes_is_found_wherever_it_hides() {
        let many = attributes(500_000, |n| format!(" a{n}"));
        let values = attributes(3_000, |n| format!(" a{n}=\"'>\""));
        for (name, page) in [
            ("alone", format!("<p{many}>")),
            ("without an end", format!("<p{many}")),
            ("end tag", format!("</p{many}>")),
            ("slashes", format!("<p{}", attributes(3_000, |n| format!("/a{n}")))),
            (
                "quotes without blanks",
                format!("<p{}", attributes(3_000, |n| format!(" a{n}='x'")).replace(' ', "/")),
            ),
            ("ends within quotes", format!("<p{values}>")),
            ("single quotes", format!("<p{}>", attributes(3_000, |n| format!(" a{n}='>\"'")))),
            ("after a quote in a comment", format!("<!-- <a x=\" --><p{many}>")),
            ("after a quote in a script", format!("<script>a<b='</script><p{many}>")),
            ("after a tag within a value", format!("<p x='<a y=\"'><b{many}>")),
            ("the end of a script", format!("<script></script{many}>")),
            ("an SVG's", format!("<svg{many}/>")),
            ("lines", format!("<p{}", many.replace(' ', "\r\n"))),
            ("equals signs", format!("<p{}", attributes(6_000, |n| format!(" =a{n}=")))),
            ("many tags of many", format!("<p{}>", attributes(1_900, |n| format!(" a{n}"))).repeat(50)),
        ] {
            assert_eq!(check(&page, &Stop::default()), Err(PageLimit::Attributes), "{name}");
        }
    }

    #[test]
    fn pages_of_people_pass() {
        let usual = "<p class=\"a b\" id='x' hidden data-x=1>text</p>\n".repeat(10_000);
        let script =
            format!("<script>{}</script>", "for (i = 0; i <n; i++) { a = b => c; d = 'e'; }\n".repeat(5_000));
        let picture = format!("<img src=\"data:image/png;base64,{}\">", "iVBOR/w0K/Gg o".repeat(60_000));
        let prose = "a < b, 3 <5, x << y and so on. ".repeat(20_000);
        for page in [&usual, &script, &picture, &prose] {
            assert_eq!(check(page, &Stop::default()), Ok(()), "{}", &page[..60]);
        }
    }

    #[test]
    fn a_count_that_is_no_longer_wanted_stops() {
        let stop = Stop::default();
        stop.set();
        assert_eq!(check("<p>", &stop), Err(PageLimit::Stopped));
    }
}
