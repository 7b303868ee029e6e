//! The code blocks of a page, and the page with other outputs.

use std::fmt::Write;
use std::path::Path;

use super::output;

/// A page and what of it is run.
pub(super) struct Page {
    /// Each with the line at which it begins, counted from one.
    pub(super) blocks: Vec<(usize, Block)>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Block {
    /// A file of the project.
    File { name: String, content: String },
    /// Commands without their output.
    Script(String),
    /// Commands with their output.
    Session(Vec<Example>),
}

/// A command of a session.
#[derive(Debug, PartialEq)]
pub(super) struct Example {
    pub(super) text: String,
    /// The lines that the page shows below it.
    shown: Vec<String>,
    exit_code: i32,
}

/// The end of an example that fails.
const EXITS: &str = "# exits ";
/// What a reader types before each command.
const PROMPT: &str = "$ ";
/// The reason why an example is not run follows.
const NOT_RUN: &str = "not-run:";
const FENCE: &str = "```";

impl Page {
    /// Reads the blocks; an error begins with its line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut blocks = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            let Some(info) = line.strip_prefix(FENCE) else { continue };
            let content: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != FENCE).collect();
            let block =
                Block::parse(info.trim(), &content).map_err(|problem| format!("{}: {problem}", at + 1))?;
            blocks.extend(block.map(|block| (at + 1, block)));
        }
        Ok(Self { blocks })
    }

    /// The page with the outputs that its sessions have now.
    pub(super) fn render(&self, text: &str) -> String {
        let mut page = String::new();
        let mut lines = text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            let _ = writeln!(page, "{line}");
            let block = self.blocks.iter().find(|(begins, _)| *begins == at + 1);
            if let Some((_, Block::Session(examples))) = block {
                lines.by_ref().find(|(_, line)| *line == FENCE);
                for example in examples {
                    let commands = example.text.replace('\n', "\n> ");
                    let _ = writeln!(page, "{PROMPT}{commands}");
                    example.shown.iter().for_each(|line| {
                        let _ = writeln!(page, "{line}");
                    });
                }
                let _ = writeln!(page, "{FENCE}");
            } else if line.starts_with(FENCE) {
                for (_, line) in lines.by_ref() {
                    let _ = writeln!(page, "{line}");
                    if line == FENCE {
                        break;
                    }
                }
            }
        }
        page
    }
}

impl Block {
    /// `None` for a block that is not run.
    fn parse(info: &str, content: &[&str]) -> Result<Option<Self>, String> {
        let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
        if language.is_empty() {
            return Err(
                "this block names no language; `text` is for what is neither run nor a file".to_owned()
            );
        }
        if let Some(reason) = rest.strip_prefix(NOT_RUN) {
            let has_reason = !reason.trim().is_empty();
            return if has_reason { Ok(None) } else { Err(format!("`{NOT_RUN}` needs a reason")) };
        }
        if let Some(name) = rest.strip_prefix("file=") {
            let content = content.join("\n") + "\n";
            return Ok(Some(Block::File { name: name.to_owned(), content }));
        }
        Ok(match language {
            "console" => Some(Block::Session(examples(content)?)),
            "sh" => Some(Block::Script(content.join("\n"))),
            _ => None,
        })
    }
}

fn examples(content: &[&str]) -> Result<Vec<Example>, String> {
    let mut examples: Vec<Example> = Vec::new();
    for line in content {
        if let Some(text) = line.strip_prefix(PROMPT) {
            let exit_code = text.split_once(EXITS).map_or(Ok(0), |(_, code)| code.trim().parse());
            let exit_code = exit_code.map_err(|_| format!("`{EXITS}` needs a number: {line}"))?;
            examples.push(Example { text: text.to_owned(), shown: Vec::new(), exit_code });
            continue;
        }
        let last = examples.last_mut().ok_or_else(|| format!("a session begins with `{PROMPT}`: {line}"))?;
        match line.strip_prefix("> ") {
            Some(more) if last.shown.is_empty() => last.text = format!("{}\n{more}", last.text),
            _ => last.shown.push((*line).to_owned()),
        }
    }
    Ok(examples)
}

/// A script that prints the output and the exit code of each command between marks.
pub(super) fn script(examples: &[Example], mark: char) -> String {
    let each = |example: &Example| format!("{}\nprintf '{mark}%s{mark}' $?\n", example.text);
    examples.iter().map(each).collect()
}

/// The output of each command with its exit code.
pub(super) fn outputs(printed: &str, mark: char) -> Vec<(String, i32)> {
    let parts: Vec<&str> = printed.split(mark).collect();
    let pairs = parts.chunks(2).filter(|pair| pair.len() == 2);
    pairs.map(|pair| (pair[0].to_owned(), pair[1].parse().unwrap_or(-1))).collect()
}

impl Example {
    /// Compares the example with what it printed; with `write`, the page shows that from now on.
    pub(super) fn check(
        &mut self,
        (printed, code): &(String, i32),
        home: &Path,
        write: bool,
    ) -> Result<(), String> {
        let printed = printed.replace(&home.display().to_string(), "~");
        let lines: Vec<String> = printed.trim_end().lines().map(|line| line.trim_end().to_owned()).collect();
        if *code != self.exit_code {
            return Err(format!("exit code {code} instead of {}\n{printed}", self.exit_code));
        }
        let is_same = output::fits(&self.shown, &lines);
        if write && !is_same && !self.shown.iter().any(|line| line == output::ANY_LINES) {
            self.shown = lines;
            return Ok(());
        }
        if is_same || self.shown.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the page shows other output\n--- the page\n{}\n--- printed\n{printed}",
            self.shown.join("\n")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A page\n\n```yaml file=a.yaml\nx: 1\n```\n\n```console\n$ posse ps\nno runs yet\n$ false # exits 1\n```\n\n\
                        ```sh not-run: needs a key\nposse run x\n```\n";

    #[test]
    fn files_sessions_and_examples_that_are_not_run_are_told_apart() {
        let page = Page::parse(TEXT).unwrap();
        let [(3, Block::File { name, content }), (7, Block::Session(examples))] = page.blocks.as_slice()
        else {
            panic!("{:?}", page.blocks);
        };
        assert_eq!((name.as_str(), content.as_str()), ("a.yaml", "x: 1\n"));
        let ends: Vec<(&str, i32)> = examples.iter().map(|it| (it.text.as_str(), it.exit_code)).collect();
        assert_eq!(ends, [("posse ps", 0), ("false # exits 1", 1)]);
    }

    #[test]
    fn a_block_without_a_language_or_a_reason_is_an_error_with_its_line() {
        assert!(Page::parse("\n```\nposse ps\n```\n").is_err_and(|problem| problem.starts_with("2: ")));
        assert!(
            Page::parse("```sh not-run:\nposse ps\n```\n").is_err_and(|problem| problem.contains("reason"))
        );
        assert!(Page::parse("```console\nposse ps\n```\n").is_err());
    }

    #[test]
    fn another_output_or_exit_code_is_found_and_can_be_written() {
        let mut page = Page::parse(TEXT).unwrap();
        let printed = outputs("RUN 1\n\u{1}0\u{1}\u{1}0\u{1}", '\u{1}');
        let Block::Session(examples) = &mut page.blocks[1].1 else { panic!("a session") };
        let home = Path::new("/h");
        assert!(examples[0].check(&printed[0], home, false).is_err());
        assert!(examples[1].check(&printed[1], home, false).is_err_and(|it| it.contains("instead of 1")));
        examples[0].check(&printed[0], home, true).unwrap();
        assert_eq!(page.render(TEXT), TEXT.replace("no runs yet", "RUN 1"));
    }
}
