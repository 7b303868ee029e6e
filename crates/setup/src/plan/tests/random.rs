//! Random texts: reading never panics, and returns a plan or a problem.

use proptest::prelude::*;

use super::{GOOD, document, parse, world};

/// Replaces a part of the text by `piece`, at the nearest character boundaries.
fn spliced(text: &str, at: usize, length: usize, piece: &str) -> String {
    let from = text.floor_char_boundary(at.min(text.len()));
    let to = text.ceil_char_boundary((from + length).min(text.len()));
    format!("{}{piece}{}", &text[..from], &text[to..])
}

fn is_read(text: &str) -> bool {
    match parse(text).check(&world()) {
        Ok(plan) => !plan.steps.is_empty(),
        Err(problems) => {
            // In YAML a carriage return ends a line too, with or without a line feed.
            let lines = text.matches(['\n', '\r']).count() as u64 + 2;
            !problems.is_empty()
                && problems.iter().all(|problem| problem.line.is_none_or(|line| line <= lines))
        }
    }
}

#[test]
fn a_text_of_nothing_but_line_ends_is_a_problem() {
    assert!(is_read("\r\r") && is_read("\n\n") && is_read(""));
}

proptest! {
    #[test]
    fn any_text_is_a_plan_or_a_problem(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(is_read(&text));
        prop_assert!(is_read(document(&text)));
    }

    #[test]
    fn any_yaml_like_text_is_a_plan_or_a_problem(text in r"([ \-:\[\]{}&*|>'!#,\n]|goal|steps|title|null|1|<<){0,60}") {
        prop_assert!(is_read(&text));
    }

    #[test]
    fn a_good_plan_that_was_damaged_is_a_plan_or_a_problem(
        places in prop::collection::vec((0..GOOD.len(), 0..30_usize, r"([ \-:\[\]{}&*|>'!#\n]|null|-1|.nan|title|\PC){0,3}"), 1..4)
    ) {
        let damaged = places
            .iter()
            .fold(GOOD.to_owned(), |text, (at, length, piece)| spliced(&text, *at, *length, piece));
        prop_assert!(is_read(&damaged), "{damaged}");
    }
}
