//! Checks that names are searchable: a type is a noun, and a function that answers a question changes nothing.

use super::Breach;
use super::source::Source;

/// Words that say nothing about what they name: irregular participles, question words, prepositions, and the words that
/// GLOSSARY.md replaces by the noun of the field.
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
/// The prefixes of questions.
const QUESTIONS: &[&str] = &["is_", "has_", "can_", "may_", "must_", "wants_", "needs_", "waits_"];

/// Words that no function, constant or static may have in its name: GLOSSARY.md has the verb or noun for each.
const FORBIDDEN_WORDS: &[&str] =
    &["told", "said", "heard", "mend", "mended", "nobody", "somebody", "whoever", "carry", "carried"];
/// Names that are right all the same, and why.
const ALLOWED_NAMES: &[(&str, &str, &str)] =
    &[("crates/sandbox/src/init/foreign_mounts.rs", "NOBODY", "the name of a user of the system")];

pub(crate) fn check(source: &Source) -> Vec<Breach> {
    let mut breaches = forbidden_names(source);
    for found in source.declarations(&["struct", "enum", "trait", "type", "union"]) {
        if names_nothing(found.name) {
            let why = "a reader searches for the noun of the field (GLOSSARY.md), and a bare participle names nothing";
            breaches.push(breach(source, found.at, "type-name", format!("`{}`", found.name), why));
        }
    }
    for found in source.declarations(&["fn"]) {
        let acts = || changes_a_parameter(parameters(&source.masked.code[found.end..]));
        if QUESTIONS.iter().any(|question| found.name.starts_with(question)) && acts() {
            let why =
                "a reader takes a question for harmless; what changes something has a verb (`ensure_base`)";
            breaches.push(breach(source, found.at, "acting-predicate", format!("`{}`", found.name), why));
        }
    }
    breaches
}

/// Names of product code with a forbidden word. The name of a test is a sentence and may have any word.
fn forbidden_names(source: &Source) -> Vec<Breach> {
    let is_allowed =
        |name: &str| ALLOWED_NAMES.iter().any(|(path, known, _)| *path == source.path && *known == name);
    let has_forbidden = |name: &str| {
        name.split('_').any(|word| FORBIDDEN_WORDS.contains(&word.to_ascii_lowercase().as_str()))
    };
    let named = source.declarations(&["fn", "const", "static"]).into_iter();
    let named = named.filter(|found| !source.is_test(found.at) && !source.path.contains("/testkit/"));
    let why = "a private word: use the verb or noun of GLOSSARY.md, which a reader would search for";
    named
        .filter(|found| has_forbidden(found.name) && !is_allowed(found.name))
        .map(|found| breach(source, found.at, "forbidden-name", format!("`{}`", found.name), why))
        .collect()
}

fn breach(source: &Source, at: usize, rule: &'static str, found: String, why: &'static str) -> Breach {
    Breach { place: format!("{}:{}", source.path, source.line(at)), rule, found, why }
}

/// The parameters of a function, from the code after its name: without the generics before them.
fn parameters(code: &str) -> &str {
    let (mut generics, mut depth, mut begin, mut before) = (0_usize, 0_usize, 0, ' ');
    for (at, c) in code.char_indices() {
        match c {
            '<' if depth == 0 => generics += 1,
            // The arrow of a bound such as `Fn() -> bool` closes nothing.
            '>' if depth == 0 && before != '-' => generics = generics.saturating_sub(1),
            '(' if generics == 0 => {
                if depth == 0 {
                    begin = at + 1;
                }
                depth += 1;
            }
            ')' if generics == 0 => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return &code[begin..at];
                }
            }
            _ => {}
        }
        before = c;
    }
    ""
}

/// Whether a parameter is a mutable reference or contains one. The parameters of a closure are its own.
fn changes_a_parameter(parameters: &str) -> bool {
    let mut depth = 0_usize;
    parameters.char_indices().any(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '&' if depth == 0 => {
                let after = parameters[at + 1..].trim_start();
                let lifetime = after.starts_with('\'').then(|| after.split_once(char::is_whitespace));
                let after = lifetime.flatten().map_or(after, |(_, rest)| rest.trim_start());
                return after.starts_with("mut ");
            }
            _ => {}
        }
        false
    })
}

/// Whether a type's whole name is one word, and that word is not a noun.
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
    fn a_private_word_in_the_name_of_a_function_or_a_constant_is_a_breach_and_in_a_test_it_is_not() {
        let code = "fn mended(text: &str) {}\nconst TOLD_MAX: u8 = 1;\nfn recommend() {}\n\
                    #[cfg(test)]\nmod tests {\n#[test]\nfn limits_are_told() {}\n}\n";
        let mut names = found(code);
        names.sort();
        assert_eq!(names, ["`TOLD_MAX`", "`mended`"]);
        let system = Source::new("crates/sandbox/src/init/foreign_mounts.rs", "const NOBODY: u32 = 65_534;");
        assert!(check(&system).is_empty());
    }

    #[test]
    fn a_question_that_changes_something_is_a_breach() {
        assert_eq!(found("fn has_base(&mut self) -> bool { true }"), ["`has_base`"]);
        assert_eq!(found("fn has_base(&self) -> bool { true }\nfn ensure_base(&mut self) {}"), [""; 0]);
    }

    #[test]
    fn a_question_that_changes_what_it_is_given_is_a_breach() {
        for parameters in [
            "(fields: &mut Fields)",
            "(&self, notes: &'a mut Notes<'_>)",
            "(self: &mut Self)",
            "(\n    file: &File,\n    notes: &mut Notes,\n)",
            "(notes: Option<&mut Notes>)",
            "<F: Fn(u8) -> bool>(test: F, notes: &mut Notes)",
        ] {
            assert_eq!(
                found(&format!("fn is_off{parameters} -> bool {{ true }}")),
                ["`is_off`"],
                "{parameters}"
            );
        }
        for fine in [
            "fn is_off(fields: &Fields) -> bool { true }",
            "fn is_off(mut call: &Stream) -> bool { true }",
            "fn is_off(test: impl Fn(&mut Fields) -> bool) -> bool { true }",
            "fn is_off<F: Fn(&mut Fields) -> bool>(test: F) -> bool { true }",
            "fn is_off(fields: &Fields) -> bool { take(&mut Notes::new()) }",
            "fn take_off(fields: &mut Fields) -> bool { true }",
        ] {
            assert_eq!(found(fine), [""; 0], "{fine}");
        }
    }
}
