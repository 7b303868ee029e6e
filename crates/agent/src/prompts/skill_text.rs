//! Renders the text of a skill with the arguments of its call.

use posse_domain::skill::Skill;

/// The placeholder for all arguments.
const ALL: &str = "$ARGUMENTS";
/// The placeholder for the skill's directory. Another program defined its name.
const DIRECTORY: &str = "${CLAUDE_SKILL_DIR}";
/// Maximum size of a rendered text. The rest is omitted.
const RENDERED_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The heading for arguments in a text without a placeholder.
const HEADING: &str = "## Arguments";

/// Renders the instructions of a skill with its arguments. If the text has no placeholder, the arguments follow under a
/// heading.
///
/// - `$ARGUMENTS` means all arguments, `$ARGUMENTS[0]` the first word, and `$1` to `$9` the words. In a text with a
///   `$0` that is the first word. A quoted phrase is one word. Prices (`$5`, `$1.50`) stay, unless the call has that
///   many words.
/// - `${CLAUDE_SKILL_DIR}` is the path of the skill's files for commands, or else for `read`.
/// - Inserted text is not expanded again, so arguments with a `$` stay as they are.
pub fn render(skill: &Skill, arguments: &str, runs: bool) -> String {
    let arguments = arguments.trim();
    let places = Placeholders {
        arguments,
        words: words(arguments),
        first: u8::from(!counts_from_zero(&skill.instructions)),
        directory: skill.directory(runs),
    };
    let mut rendered = String::with_capacity(skill.instructions.len() + arguments.len());
    let mut rest = &*skill.instructions;
    let mut found_place = false;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        rendered.push_str(before);
        if rendered.len() > RENDERED_MAX_BYTES {
            rendered.truncate(rendered.floor_char_boundary(RENDERED_MAX_BYTES));
            rendered.push_str("\n\n[the rest is left out: with its arguments the text is too long]");
            return rendered;
        }
        if let Some(after) = from.strip_prefix(DIRECTORY) {
            rendered.push_str(&places.directory);
            rest = after;
        } else if let Some((text, after)) = places.argument(from) {
            found_place = true;
            rendered.push_str(text);
            rest = after;
        } else {
            rendered.push('$');
            rest = from.get(1..).unwrap_or_default();
        }
    }
    rendered.push_str(rest);
    if !found_place && !arguments.is_empty() {
        let text = rendered.trim_end();
        return format!("{text}\n\n{HEADING}\n\n{arguments}");
    }
    rendered
}

/// The text for an agent that loads a skill. `reads`: it can read files. `runs`: it can run commands.
pub fn loaded_skill(skill: &Skill, arguments: &str, reads: bool, runs: bool) -> String {
    let files = if reads { skill.about_files(runs) } else { String::new() };
    format!("# Skill: {}\n\n{}{files}\n", skill.name, render(skill, arguments, runs).trim())
}

/// The values for the placeholders of a skill's text.
struct Placeholders<'t> {
    arguments: &'t str,
    words: Vec<&'t str>,
    /// The number of the first word.
    first: u8,
    directory: String,
}

impl<'t> Placeholders<'t> {
    /// The value of the placeholder at the beginning of a text, and the text after it.
    fn argument<'r>(&self, from: &'r str) -> Option<(&'t str, &'r str)> {
        if let Some(after) = from.strip_prefix(ALL) {
            if let Some((number, after)) = after.strip_prefix('[').and_then(|after| after.split_once(']'))
                && let Ok(number) = number.parse::<usize>()
            {
                return Some((self.words.get(number).copied().unwrap_or_default(), after));
            }
            let is_longer_name = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            return (!is_longer_name).then_some((self.arguments, after));
        }
        let (number, after) = number(from)?;
        let word = self.words.get(usize::from(number.checked_sub(self.first)?))?;
        Some((*word, after))
    }
}

fn counts_from_zero(text: &str) -> bool {
    text.match_indices('$')
        .any(|(at, _)| number(text.get(at..).unwrap_or_default()).is_some_and(|(n, _)| n == 0))
}

/// The number of a `$1`, unless it is a price.
fn number(from: &str) -> Option<(u8, &str)> {
    let number = from.get(1..2)?.parse().ok()?;
    let after = from.get(2..)?;
    let is_price = after.starts_with(|c: char| c.is_ascii_digit())
        || after
            .strip_prefix(['.', ','])
            .is_some_and(|cents| cents.starts_with(|c: char| c.is_ascii_digit()));
    (!is_price).then_some((number, after))
}

/// The words of a text. A quoted phrase is one word.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let quoted = matches!(first, '"' | '\'').then(|| rest.get(1..)?.split_once(first)).flatten();
        let (word, after) =
            quoted.unwrap_or_else(|| rest.split_once(char::is_whitespace).unwrap_or((rest, "")));
        words.push(word);
        rest = after.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use posse_definitions::{ParseOptions, read_skill};
    use posse_domain::definition::Trust;

    use super::*;

    fn rendered(instructions: &str, arguments: &str) -> String {
        let text = format!("---\nname: x\ndescription: d\n---\n{instructions}");
        let options = ParseOptions { file: "x", known_tools: &[], trust: Trust::Trusted, model: None };
        let skill = read_skill(text.as_bytes(), "x", None, &options).value.expect("skill");
        render(&skill, arguments, true)
    }

    #[test]
    fn what_is_filled_in_has_a_limit() {
        let text = rendered(&"$1".repeat(1_000), &"x".repeat(64 * 1024));
        assert!(text.len() < RENDERED_MAX_BYTES + 200, "{}", text.len());
        assert!(text.ends_with("[the rest is left out: with its arguments the text is too long]"));
    }

    #[test]
    fn arguments_are_put_where_the_text_wants_them() {
        for (text, arguments, expected) in [
            ("Fix $ARGUMENTS now.", "issue 12", "Fix issue 12 now."),
            ("$1 then $2, $1.", "a 'b c'", "a then b c, a."),
            ("Fix it.", "issue 12", "Fix it.\n\n## Arguments\n\nissue 12"),
            ("Fix it.", "  ", "Fix it."),
            ("Fix $ARGUMENTS.", "", "Fix ."),
            ("All: $ARGUMENTS", "$1 $ARGUMENTS", "All: $1 $ARGUMENTS"),
            ("It costs $5 and $10, $1.50.", "a", "It costs $5 and $10, $1.50.\n\n## Arguments\n\na"),
            ("$ARGUMENTS_LIST and $", "a", "$ARGUMENTS_LIST and $\n\n## Arguments\n\na"),
            ("$0 then $1", "a b", "a then b"),
            ("$1", "\"open", "\"open"),
            ("$ARGUMENTS[1] of $ARGUMENTS[0], $ARGUMENTS[7]", "a b", "b of a, "),
            ("See ${CLAUDE_SKILL_DIR}/x.md", "a", "See skill://x/x.md\n\n## Arguments\n\na"),
            ("run !`ls` on $1", "ä ö", "run !`ls` on ä"),
        ] {
            assert_eq!(rendered(text, arguments), expected, "{text} <- {arguments}");
        }
    }
}
