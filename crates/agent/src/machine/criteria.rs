//! Criteria in words: finds those of a contract, and those that a report does not answer.
//!
//! Why it is like this: `docs/decisions/criteria-in-reports.md`.

use posse_domain::contract::{Contract, Criterion};

/// The criteria of a contract that are words.
pub(crate) fn words(contract: &Contract) -> impl Iterator<Item = &String> {
    contract.step.success_criteria.iter().filter_map(|criterion| match criterion {
        Criterion::Words(words) => Some(words),
        Criterion::Command(_) => None,
    })
}

/// The numbers of the criteria that no line of a report answers. A line may be a list item or emphasised.
pub(super) fn unanswered(count: usize, report: &str) -> Vec<usize> {
    let answered = |number: usize| {
        let begins = format!("criterion {number}:");
        report.lines().any(|line| {
            let line = line.trim_start_matches(|c: char| c.is_whitespace() || "-*#>_`".contains(c));
            let head: String = line.chars().filter(|c| !"*_`".contains(*c)).take(begins.len()).collect();
            head.eq_ignore_ascii_case(&begins)
        })
    };
    (1..=count).filter(|number| !answered(*number)).collect()
}
