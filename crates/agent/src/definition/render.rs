//! The text of a skill with what its caller wrote after the name.

use posse_domain::skill::Skill;

/// The place of all arguments.
const ALL: &str = "$ARGUMENTS";
/// What arguments stand under in a text that has no place for them.
const HEADING: &str = "## Arguments";

/// The instructions of a skill with `$ARGUMENTS` and `$1` to `$9` filled in. If the text has no place for them,
/// arguments follow under a heading of their own. What is filled in is not looked at again, so arguments with a `$`
/// stay as they are; a `$5` or `$10` that is a price does too, unless so many arguments were given.
pub fn render(skill: &Skill, arguments: &str) -> String {
    let arguments = arguments.trim();
    let words = words(arguments);
    let mut rendered = String::with_capacity(skill.instructions.len() + arguments.len());
    let mut rest = skill.instructions.as_str();
    let mut found_place = false;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        rendered.push_str(before);
        if let Some((text, after)) = place(from, arguments, &words) {
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

/// What a place stands for, and what follows it.
fn place<'t>(from: &'t str, arguments: &'t str, words: &[&'t str]) -> Option<(&'t str, &'t str)> {
    if let Some(after) = from.strip_prefix(ALL) {
        let is_longer_name = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        return (!is_longer_name).then_some((arguments, after));
    }
    let number = from.get(1..2)?.parse::<usize>().ok()?;
    let after = from.get(2..)?;
    let is_price = after.starts_with(|c: char| c.is_ascii_digit())
        || after
            .strip_prefix(['.', ','])
            .is_some_and(|cents| cents.starts_with(|c: char| c.is_ascii_digit()));
    let word = words.get(number.checked_sub(1)?)?;
    (!is_price).then_some((*word, after))
}

/// The words of a text; what stands in quotes is one.
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
    use super::*;
    use crate::definition::agent_markdown::tests::reading;
    use crate::definition::read_skill;

    fn rendered(instructions: &str, arguments: &str) -> String {
        let text = format!("---\nname: x\ndescription: d\n---\n{instructions}");
        let skill = read_skill(text.as_bytes(), "x", None, &reading("x")).value.expect("skill");
        render(&skill, arguments)
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
            ("$0 $1", "\"open", "$0 \"open"),
            ("run !`ls` on $1", "ä ö", "run !`ls` on ä"),
        ] {
            assert_eq!(rendered(text, arguments), expected, "{text} <- {arguments}");
        }
    }
}
