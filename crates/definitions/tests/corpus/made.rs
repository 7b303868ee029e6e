//! Files generated from every style and every oddity that fits it.

use std::collections::BTreeSet;

use posse_definitions::{Severity, Warning, read_agent, read_skill, read_yaml_skill};
use posse_domain::definition::Trust;

use crate::oddities::{ODDITIES, Oddity};
use crate::promises;
use crate::styles::{FileType, STYLES, Style, every_tool};

/// Front matter begins on the second line of a file.
const FRONT_MATTER_BEGINS: usize = 2;
/// The description of a file without an odd one.
pub(crate) const DESCRIPTION: &str = "Use it for what it is good at.";

/// A generated file, and its expected parse result.
pub(crate) struct GeneratedFile {
    pub(crate) kind: FileType,
    /// The name in its text.
    pub(crate) name: String,
    /// The name of the file, or of the skill's folder.
    pub(crate) stem: String,
    /// The lines of front matter, or of a YAML skill.
    pub(crate) lines: Vec<String>,
    pub(crate) body: String,
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
    /// The last step, which encodes the text.
    pub(crate) encode: fn(String) -> Vec<u8>,
    pub(crate) expected: Option<ExpectedFields>,
    pub(crate) warnings: Vec<ExpectedWarning>,
}

/// The expected parse result of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExpectedFields {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) body: String,
    pub(crate) model: Option<String>,
}

/// An expected warning.
#[derive(Debug, Clone)]
pub(crate) struct ExpectedWarning {
    pub(crate) level: Severity,
    /// None for the whole file.
    pub(crate) line: Option<usize>,
    /// A part of its text.
    pub(crate) says: &'static str,
}

impl GeneratedFile {
    fn new(style: &Style, name: &str) -> Self {
        let mut lines = vec![format!("name: {name}"), format!("description: {DESCRIPTION}")];
        lines.extend(style.tools.iter().chain(style.more).map(ToString::to_string));
        let listed = |tools: &[&str]| tools.iter().map(ToString::to_string).collect();
        let every = || (style.kind == FileType::Agent).then(every_tool);
        Self {
            kind: style.kind,
            name: name.to_owned(),
            stem: name.to_owned(),
            lines,
            body: style.body.to_owned(),
            open: "---\n",
            close: "---\n",
            encode: String::into_bytes,
            expected: Some(ExpectedFields {
                name: name.to_owned(),
                description: DESCRIPTION.to_owned(),
                tools: style.expected_tools.map(listed).or_else(every),
                body: style.body.to_owned(),
                model: None,
            }),
            warnings: Vec::new(),
        }
    }

    /// The line in the file of this line of the front matter.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        if self.kind.is_markdown() { at + FRONT_MATTER_BEGINS } else { at + 1 }
    }

    /// The index of the line with this key.
    pub(crate) fn at(&self, key: &str) -> Option<usize> {
        self.lines.iter().position(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))
    }

    /// Replaces the lines of a key, or appends lines. Returns the line in the file.
    pub(crate) fn put(&mut self, key: &str, lines: &[&str]) -> usize {
        let at = self.at(key).unwrap_or(self.lines.len());
        let nested = |line: &String| line.starts_with([' ', '\t', '-']);
        let end = self
            .lines
            .iter()
            .skip(at + 1)
            .position(|line| !nested(line))
            .map_or(self.lines.len(), |n| at + 1 + n);
        let end = end.max(at).min(self.lines.len());
        self.lines.splice(at..end, lines.iter().map(ToString::to_string));
        self.line_of(at)
    }

    /// Sets the expected description.
    pub(crate) fn described(&mut self, description: &str) {
        description.clone_into(&mut self.expect().description);
    }

    /// Sets the body.
    pub(crate) fn instructs(&mut self, body: &str) {
        body.clone_into(&mut self.body);
        body.clone_into(&mut self.expect().body);
    }

    pub(crate) fn expect(&mut self) -> &mut ExpectedFields {
        self.expected.as_mut().expect("it is to be read")
    }

    pub(crate) fn warns(&mut self, level: Severity, line: impl Into<Option<usize>>, says: &'static str) {
        self.warnings.push(ExpectedWarning { level, line: line.into(), says });
    }

    fn bytes(&self) -> Vec<u8> {
        let front = self.lines.join("\n");
        let text = if self.kind.is_markdown() {
            format!("{}{front}\n{}\n{}\n", self.open, self.close, self.body)
        } else {
            let body = self.body.replace('\n', "\n  ");
            format!("{front}\nsystem_prompt: |\n  {body}\n")
        };
        (self.encode)(text)
    }

    /// Parses the file and checks the invariants.
    fn read(&self, trust: Trust) -> (Option<ExpectedFields>, Vec<Warning>) {
        let bytes = self.bytes();
        let reading = promises::reading("made.md", trust);
        match self.kind {
            FileType::Agent => {
                let loaded = read_agent(&bytes, &self.stem, &reading);
                promises::definition(&bytes, &loaded, trust);
                let found = loaded.value.map(|found| ExpectedFields {
                    name: found.name,
                    description: found.description,
                    tools: Some(found.tools),
                    body: found.prompt.to_string(),
                    model: found.model,
                });
                (found, loaded.warnings)
            }
            FileType::Skill | FileType::Yaml => {
                let loaded = match self.kind {
                    FileType::Skill => read_skill(&bytes, &self.stem, None, &reading),
                    _ => read_yaml_skill(&bytes, &self.stem, &reading),
                };
                promises::skill(&bytes, &loaded, trust);
                let found = loaded.value.map(|found| ExpectedFields {
                    name: found.name,
                    description: found.description,
                    tools: found.tools,
                    body: found.instructions.to_string(),
                    model: found.model,
                });
                (found, loaded.warnings)
            }
        }
    }
}

fn made(style: &Style, oddity: &Oddity) -> Option<GeneratedFile> {
    let name = format!("{}-{}", style.name, oddity.name);
    let mut made = GeneratedFile::new(style, &name);
    (oddity.change)(&mut made).then_some(made)
}

fn all() -> impl Iterator<Item = (String, GeneratedFile)> {
    STYLES.iter().flat_map(|style| {
        ODDITIES
            .iter()
            .filter_map(|oddity| Some((format!("{} with {}", style.name, oddity.name), made(style, oddity)?)))
    })
}

#[test]
fn every_style_with_every_oddity_is_read_or_warned_of_as_expected() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (what, made) in all() {
        count += 1;
        let (found, warnings) = made.read(Trust::Trusted);
        let told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let fits = |expected: &ExpectedWarning, warning: &Warning| {
            warning.level == expected.level
                && warning.line.and_then(|line| usize::try_from(line).ok()) == expected.line
                && warning.problem.contains(expected.says)
        };
        let all_fit = warnings.len() == made.warnings.len()
            && made.warnings.iter().all(|expected| warnings.iter().any(|warning| fits(expected, warning)));
        if found != made.expected || !all_fit {
            let text = String::from_utf8_lossy(&made.bytes()).chars().take(600).collect::<String>();
            wrong.push(format!(
                "{what}:\n{text}\n  expected {:?}\n  found    {found:?}\n  expected {:?}\n  found    {told:#?}",
                made.expected, made.warnings
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} are not as expected:\n\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(count >= 300, "{count} files");
}

/// All files of one collection are found under their names, whatever other files it has.
#[test]
fn none_hides_another() {
    let mut names = BTreeSet::new();
    let mut readable = 0;
    for (what, made) in all() {
        let (found, _) = made.read(Trust::Trusted);
        assert_eq!(found.is_some(), made.expected.is_some(), "{what}");
        readable += usize::from(found.is_some());
        if let Some(found) = found {
            assert!(names.insert(found.name.clone()), "{what}: there is another `{}`", found.name);
        }
    }
    assert_eq!(names.len(), readable);
    assert!(readable >= 250, "{readable} can be read");
}

#[test]
fn nothing_that_nobody_trusts_gets_more_than_coder_has() {
    for (what, made) in all() {
        let (trusted, _) = made.read(Trust::Trusted);
        let (found, _) = made.read(Trust::Untrusted);
        assert_eq!(found.map(|found| found.name), trusted.map(|trusted| trusted.name), "{what}");
    }
}

#[test]
fn every_text_keeps_the_promises_whatever_it_is_read_as() {
    for (_, made) in all() {
        promises::kept(&made.bytes());
    }
}
