//! Names that a reader can search for: a type is a noun, and a function that answers a question changes nothing.

use super::Breach;
use super::source::Source;

/// Words that say nothing about the thing they stand for: irregular participles, question words, prepositions, and the
/// words that GLOSSARY.md replaces by the noun of the field.
const NO_NOUNS: &[&str] = &[
    "About", "Above", "After", "Again", "Anything", "Apart", "At", "Because", "Before", "Begun", "Beneath",
    "Beside", "Between", "Beyond", "Both", "Bound", "Built", "By", "Caught", "Chosen", "Cut", "Doing",
    "Drawn", "Found", "Further", "Given", "Half", "Heard", "Held", "Here", "Hidden", "How", "Kept", "Kind",
    "Kinds", "Known", "Left", "Lent", "Lost", "Low", "Made", "Met", "Nothing", "Of", "Once", "One", "Only",
    "Onto", "Others", "Out", "Outside", "Over", "Owes", "Place", "Places", "Put", "Said", "Same", "Say",
    "Seen", "Sent", "Shown", "Spent", "Spoken", "Such", "Taken", "Tell", "Then", "There", "Thrown", "To",
    "Told", "Torn", "Want", "What", "When", "Where", "Which", "Who", "Whole", "Whose", "Why", "Woken",
    "Written",
];
/// Nouns that end like a participle.
const NOUNS: &[&str] = &[
    "Binding",
    "Children",
    "Feed",
    "Listing",
    "Ping",
    "Recording",
    "Seed",
    "Setting",
    "Spending",
    "Token",
    "Thinking",
    "Warning",
];
/// What the name of a question begins with.
const QUESTIONS: &[&str] = &["is_", "has_", "can_", "may_", "must_", "wants_", "needs_", "waits_"];

pub(crate) fn check(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for found in source.declarations(&["struct", "enum", "trait", "type", "union"]) {
        if names_nothing(found.name) {
            let why = "a reader searches for the noun of the field (GLOSSARY.md), and a bare participle names nothing";
            breaches.push(breach(source, found.at, "type-name", format!("`{}`", found.name), why));
        }
    }
    for found in source.declarations(&["fn"]) {
        let arguments = source.masked.code[found.end..].trim_start();
        let acts = arguments.starts_with("(&mut self");
        if acts && QUESTIONS.iter().any(|question| found.name.starts_with(question)) {
            let why =
                "a reader takes a question for harmless; what changes something has a verb (`ensure_base`)";
            breaches.push(breach(source, found.at, "acting-predicate", format!("`{}`", found.name), why));
        }
    }
    breaches
}

fn breach(source: &Source, at: usize, rule: &'static str, found: String, why: &'static str) -> Breach {
    Breach { place: format!("{}:{}", source.path, source.line(at)), rule, found, why }
}

/// Whether a type's whole name is one word, and that word is no noun.
fn names_nothing(name: &str) -> bool {
    let mut letters = name.chars();
    let is_one_word =
        letters.next().is_some_and(char::is_uppercase) && letters.all(|letter| letter.is_ascii_lowercase());
    let ends_like_participle = ["ed", "ing", "en"].iter().any(|end| name.len() > 4 && name.ends_with(end));
    is_one_word && !NOUNS.contains(&name) && (NO_NOUNS.contains(&name) || ends_like_participle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<String> {
        check(&Source::new("crates/a/src/b.rs", code)).into_iter().map(|breach| breach.found).collect()
    }

    #[test]
    fn a_type_that_is_only_a_participle_or_a_question_word_is_a_breach() {
        let code =
            "struct Told;\nenum How { A }\ntrait Named {}\ntype Doing = u8;\npub(crate) struct Waiting {}";
        let mut names = found(code);
        names.sort();
        assert_eq!(names, ["`Doing`", "`How`", "`Named`", "`Told`", "`Waiting`"]);
    }

    #[test]
    fn a_noun_and_a_participle_before_a_noun_are_fine() {
        assert_eq!(found("struct Warning;\nstruct TrackedFile;\nstruct Token;\nenum WaitEnd {}"), [""; 0]);
    }

    #[test]
    fn a_question_that_changes_something_is_a_breach() {
        assert_eq!(found("fn has_base(&mut self) -> bool { true }"), ["`has_base`"]);
        assert_eq!(found("fn has_base(&self) -> bool { true }\nfn ensure_base(&mut self) {}"), [""; 0]);
    }
}
