//! The texts of the page, whose sources are no Rust: what is between and in the tags of its components, and the literals
//! of its code that read like prose.

/// Where its sources are.
const SOURCES: &str = "web/src/";
/// Its generated part, whose texts are those of the API.
const GENERATED: &str = "web/src/api/client.ts";
/// The words of programming languages.
const LANGUAGES: &str = "web/src/lib/code/";
/// The attributes whose values users read, on the screen or through its reader.
const READ: &[&str] =
    &["alt", "aria-label", "aria-valuetext", "label", "placeholder", "title", "what", "words"];

/// Whether a file belongs to the page and is written by hand.
pub(crate) fn is_source(path: &str) -> bool {
    let is_code = matches!(extension(path), "ts" | "svelte");
    path.starts_with(SOURCES) && path != GENERATED && !path.starts_with(LANGUAGES) && is_code
}

fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// The texts of a file in their order.
pub(crate) fn of(path: &str, text: &str, is_prose: fn(&str) -> bool) -> Vec<String> {
    if extension(path) != "svelte" {
        return literals(text, is_prose);
    }
    let (markup, code) = without(text, "script");
    let (markup, _) = without(&markup, "style");
    let mut found = literals(&code, is_prose);
    found.extend(of_markup(&markup));
    found
}

/// A component without the elements of this name, and their content.
fn without(text: &str, name: &str) -> (String, String) {
    let (mut rest, mut outside, mut inside) = (text, String::new(), String::new());
    while let Some((before, after)) = rest.split_once(&format!("<{name}")) {
        let (content, end) = after.split_once(&format!("</{name}>")).unwrap_or((after, ""));
        outside.push_str(before);
        inside.push_str(content.split_once('>').map_or("", |(_, content)| content));
        rest = end;
    }
    outside.push_str(rest);
    (outside, inside)
}

/// The texts between tags and in the attributes that users read. An expression is shown as `{}`.
fn of_markup(markup: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = markup;
    while !rest.is_empty() {
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
        } else if rest.starts_with('<') {
            let end = end_of_tag(rest);
            attributes(&rest[..end], &mut found);
            rest = &rest[end..];
        } else {
            let end = end_of_text(rest);
            push(&rest[..end], &mut found);
            rest = &rest[end..];
        }
    }
    found
}

/// Where a tag ends: at its `>` that is in no expression and no quotes.
fn end_of_tag(text: &str) -> usize {
    let (mut depth, mut is_quoted) = (0_usize, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if depth == 0 => is_quoted = !is_quoted,
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '>' if depth == 0 && !is_quoted => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Where a text ends: at the next `<` that is in no expression.
fn end_of_text(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '<' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

fn attributes(tag: &str, found: &mut Vec<String>) {
    for name in READ {
        for (at, _) in tag.match_indices(&format!(" {name}=\"")) {
            let value = &tag[at + name.len() + 3..];
            push(value.split('"').next().unwrap_or_default(), found);
        }
    }
}

fn push(text: &str, found: &mut Vec<String>) {
    let mut plain = String::new();
    let mut depth = 0_usize;
    for letter in text.chars() {
        match letter {
            '{' => {
                depth += 1;
                plain.push_str(if depth == 1 { "{}" } else { "" });
            }
            '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.contains(char::is_alphabetic) {
        found.push(line);
    }
}

/// The literals of code that read like prose. A literal is on one line, and its line is no comment.
fn literals(code: &str, is_prose: fn(&str) -> bool) -> Vec<String> {
    let lines = code.lines().map(str::trim_start);
    let lines = lines.filter(|line| !["//", "/*", "*"].iter().any(|start| line.starts_with(start)));
    lines.flat_map(literals_of_line).filter(|text| is_prose(text)).collect()
}

fn literals_of_line(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(open) = rest.find(['\'', '`']) {
        let mark = &rest[open..=open];
        let Some((text, after)) = rest[open + 1..].split_once(mark) else { break };
        found.push(text.to_owned());
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_reads_of_a_component_is_found() {
        let component = "<script lang=\"ts\">\n  // no text\n  const a = 'the words of a message';\n  const b = 'name';\n</script>\n\
                         <!-- no text -->\n<p class=\"x y\" title=\"A title\" onclick={() => a > 1}>Some <b>bold</b>\n  {count} agents</p>\n\
                         <style>\n  .x { color: red; }\n</style>";
        let found = of("web/src/x.svelte", component, |text| text.contains(' '));
        assert_eq!(found, ["the words of a message", "A title", "Some", "bold", "{} agents"]);
    }

    #[test]
    fn code_has_only_its_literals() {
        let code = "/** no text */\nconst a = `it is ${b} now`;\nimport x from './y';";
        assert_eq!(of("web/src/x.ts", code, |text| text.contains(' ')), ["it is ${b} now"]);
        assert!(is_source("web/src/x.ts") && !is_source(GENERATED) && !is_source("web/test/x.ts"));
    }
}
