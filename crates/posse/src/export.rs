//! Exports a run as one file that can be replayed elsewhere, without secrets.

mod unused;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use posse_domain::event::{EventBody, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::RunId;
use posse_domain::object_id::ObjectId;
use posse_engine::ports::{FileKind, WorkspaceError};
use serde_json::Value;

use crate::atomic_file::{self, ExistingFile};
use crate::base::BaseReader;
use crate::bundle::{BUNDLE_EXTENSION, BUNDLE_VERSION, BaseFile, Content, Entry, Manifest, Writer};
use crate::secrets::{RedactedText, Secrets, hide, is_secret_field};
use crate::{Error, Posse};
use unused::OmittedTexts;

/// Files of at least this size are named in the summary.
pub const LARGE_FILE_BYTES: u64 = 1024 * 1024;
/// Limit of named files.
const LARGE_FILES_MAX: usize = 10;
/// Limit of named positions of secrets.
const PLACES_MAX: usize = 100;

/// Options of an export.
#[derive(Debug, Clone, Default)]
pub struct ExportOptions {
    /// Values that must not be in the bundle: the user's keys. Anything that looks like a key is replaced in any case.
    pub secrets: Vec<String>,
    /// Whether an existing file is replaced.
    pub overwrite: bool,
}

/// The result of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportSummary {
    /// The exported run.
    pub run: RunId,
    /// The path of the bundle.
    pub path: PathBuf,
    /// The size of the bundle.
    pub bytes: u64,
    /// The hash of the run's last event.
    pub head: Hash,
    /// The number of events.
    pub events: u64,
    /// The number of blobs that events name.
    pub blobs: u64,
    /// How many files the run began with.
    pub files: u64,
    /// The size of these files.
    pub file_bytes: u64,
    /// The largest of them, from [`LARGE_FILE_BYTES`] on, the largest first.
    pub large_files: Vec<(String, u64)>,
    /// How many secrets were replaced by a mark.
    pub secrets: u64,
    /// Where secrets were replaced, and what they looked like: a bounded list.
    pub secret_places: Vec<String>,
    /// Files of the base that the bundle omits, each with the reason.
    pub left_out: Vec<String>,
    /// How many discovered definitions are in it without their texts, because the run did not use them.
    pub unused_agents: u64,
    /// How many discovered skills are in it without their texts, because the run did not use them.
    pub unused_skills: u64,
    /// Whether the run began with its own files. If not, a replay reads the folder at that time.
    pub has_base: bool,
}

/// The result of searching everything for secrets, before anything is written.
#[derive(Default)]
struct Survey {
    changed_events: Vec<u64>,
    changed_blobs: Vec<Hash>,
    changed_files: Vec<String>,
    files: u64,
    file_bytes: u64,
    large_files: Vec<(String, u64)>,
    secrets: u64,
    places: Vec<String>,
    left_out: Vec<String>,
    unused: Option<OmittedTexts>,
}

impl Survey {
    /// Records the secrets that were found at a position.
    fn note(&mut self, place: &str, cleaned: &RedactedText) {
        self.secrets += cleaned.found.len() as u64;
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for kind in &cleaned.found {
            *kinds.entry(kind).or_default() += 1;
        }
        let kinds: Vec<String> = kinds
            .into_iter()
            .map(|(kind, count)| if count > 1 { format!("{kind} ({count} times)") } else { kind.to_owned() })
            .collect();
        if self.places.len() < PLACES_MAX {
            self.places.push(format!("{place}: {}", kinds.join(", ")));
        }
    }
}

/// Everything in a bundle except the base.
struct Journal {
    events: Vec<StoredEvent>,
    blobs: BTreeMap<Hash, Vec<u8>>,
    base_tree: Option<ObjectId>,
}

impl Posse {
    /// Exports a run to one file that can be replayed elsewhere: its events, its long texts and the files it began
    /// with. Keys are replaced by a mark wherever they are. The file is created atomically. Its name ends in
    /// [`BUNDLE_EXTENSION`], because a replay would take any other name for the id of a run.
    pub async fn export(
        &self,
        run: &RunId,
        to: &Path,
        options: ExportOptions,
    ) -> Result<ExportSummary, Error> {
        if to.extension().is_none_or(|extension| extension != BUNDLE_EXTENSION) {
            return Err(Error::BundleName(to.to_owned()));
        }
        let journal = self.journal(run).await?;
        let files = self.files.clone();
        let base = journal.base_tree.zip(files).map(|(tree, files)| BaseReader::new(files, run, tree));
        let exporting = Exporter {
            run: run.clone(),
            tenant: self.tenant.as_str().to_owned(),
            journal,
            base,
            secrets: Secrets::new(options.secrets),
            to: to.to_owned(),
            overwrite: options.overwrite,
        };
        let task = tokio::task::spawn_blocking(move || exporting.export());
        task.await.map_err(|error| Error::NotExported { path: to.to_owned(), problem: error.to_string() })?
    }

    async fn journal(&self, run: &RunId) -> Result<Journal, Error> {
        let key = self.key(run);
        let mut events = Vec::new();
        let mut names: BTreeSet<Hash> = BTreeSet::new();
        let mut base_tree = None;
        posse_engine::read_events(&*self.store, &key, 0, |stored| {
            let mut event = posse_engine::decode(&key, &stored)?;
            names.extend(event.body.missing().into_iter().map(|at| at.blob));
            if let EventBody::RunStarted(started) = &event.body {
                base_tree = started.base.as_ref().map(|base| base.tree);
            }
            events.push(stored);
            Ok(())
        })
        .await?;
        if events.is_empty() {
            return Err(Error::NoRun(run.to_string()));
        }
        let mut blobs = BTreeMap::new();
        for name in names {
            blobs.insert(name, self.store.get_blob(&self.tenant, &name).await?);
        }
        Ok(Journal { events, blobs, base_tree })
    }
}

/// Why a bundle was not written.
enum WriteError {
    /// Its entries could not be made.
    Content(Error),
    /// Its file could not be created or named.
    File(std::io::Error),
}

impl From<std::io::Error> for WriteError {
    fn from(error: std::io::Error) -> Self {
        Self::File(error)
    }
}

struct Exporter {
    run: RunId,
    tenant: String,
    journal: Journal,
    base: Option<BaseReader>,
    secrets: Secrets,
    to: PathBuf,
    overwrite: bool,
}

impl Exporter {
    fn export(mut self) -> Result<ExportSummary, Error> {
        if !self.overwrite && self.to.symlink_metadata().is_ok() {
            return Err(Error::ExportExists(self.to));
        }
        let unused = unused::leave_out(&self.journal.events, &mut self.journal.blobs);
        let mut survey = Survey { unused, ..Survey::default() };
        self.clean_journal(&mut survey);
        self.survey_files(&mut survey)?;
        let manifest = self.manifest(&survey);
        let bytes = self.write(manifest)?;
        survey.large_files.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        survey.large_files.truncate(LARGE_FILES_MAX);
        let events = &self.journal.events;
        Ok(ExportSummary {
            head: events.last().map_or(Hash::ZERO, |last| last.hash),
            events: events.len() as u64,
            blobs: self.journal.blobs.len() as u64,
            has_base: self.journal.base_tree.is_some(),
            run: self.run,
            path: self.to,
            bytes,
            files: survey.files,
            file_bytes: survey.file_bytes,
            large_files: survey.large_files,
            secrets: survey.secrets,
            secret_places: survey.places,
            left_out: survey.left_out,
            unused_agents: survey.unused.as_ref().map_or(0, |unused| unused.agents),
            unused_skills: survey.unused.as_ref().map_or(0, |unused| unused.skills),
        })
    }

    fn failed(&self, problem: impl std::fmt::Display) -> Error {
        Error::NotExported { path: self.to.clone(), problem: format!("{problem}") }
    }

    fn clean_journal(&mut self, survey: &mut Survey) {
        for event in &mut self.journal.events {
            if let Some(cleaned) = clean_json(&self.secrets, event.payload.as_bytes()) {
                survey.note(&format!("event {} ({})", event.seq, event.kind), &cleaned);
                survey.changed_events.push(event.seq);
                event.payload = String::from_utf8_lossy(&cleaned.bytes).into_owned();
            }
        }
        for (hash, bytes) in &mut self.journal.blobs {
            if let Some(cleaned) = clean_json(&self.secrets, bytes) {
                survey.note(&format!("blob {hash}"), &cleaned);
                survey.changed_blobs.push(*hash);
                *bytes = cleaned.bytes;
            }
        }
    }

    fn survey_files(&self, survey: &mut Survey) -> Result<(), Error> {
        let Some(base) = &self.base else { return Ok(()) };
        let left_out = base.each_file::<WorkspaceError>(|file| {
            let name = file.path.display().to_string();
            let bytes = file.content.len() as u64;
            survey.files += 1;
            survey.file_bytes += bytes;
            if bytes >= LARGE_FILE_BYTES {
                survey.large_files.push((name.clone(), bytes));
            }
            if let Some(cleaned) = self.secrets.clean(&file.content) {
                survey.note(&format!("file {name}"), &cleaned);
                survey.changed_files.push(name);
            }
            Ok(())
        });
        survey.left_out = left_out.map_err(|problem| Error::Files { run: self.run.clone(), problem })?;
        Ok(())
    }

    fn manifest(&self, survey: &Survey) -> Manifest {
        let last = self.journal.events.last();
        Manifest {
            posse_bundle: BUNDLE_VERSION,
            posse: env!("CARGO_PKG_VERSION").to_owned(),
            run: self.run.clone(),
            tenant: self.tenant.clone(),
            head_seq: last.map_or(0, |last| last.seq),
            head_hash: last.map_or(Hash::ZERO, |last| last.hash),
            events: self.journal.events.len() as u64,
            blobs: self.journal.blobs.len() as u64,
            files: survey.files,
            base_tree: self.journal.base_tree.map(|tree| tree.to_string()),
            changed_events: survey.changed_events.clone(),
            changed_blobs: survey.changed_blobs.clone(),
            changed_files: survey.changed_files.clone(),
            left_out: survey.left_out.clone(),
            shortened_blob: survey.unused.as_ref().map(|unused| unused.blob),
        }
    }

    /// Writes the bundle to a temporary file and renames it once it is durable.
    fn write(&mut self, manifest: Manifest) -> Result<u64, Error> {
        let existing = if self.overwrite { ExistingFile::Replace } else { ExistingFile::Keep };
        let written = atomic_file::write(&self.to, atomic_file::PRIVATE, existing, |file| {
            self.write_to(file, manifest).map_err(WriteError::Content)
        });
        written.map_err(|error| match error {
            WriteError::Content(error) => error,
            WriteError::File(error) => match error.kind() {
                ErrorKind::AlreadyExists => Error::ExportExists(self.to.clone()),
                ErrorKind::NotFound => {
                    let folder = self.to.parent().unwrap_or(&self.to);
                    self.failed(format!("the folder {} does not exist", folder.display()))
                }
                _ => self.failed(error),
            },
        })
    }

    fn write_to(&self, file: &mut File, manifest: Manifest) -> Result<u64, Error> {
        let failed = |error: std::io::Error| self.failed(error);
        let mut writer = Writer::new(GzEncoder::new(BufWriter::new(file), Compression::default()));
        writer.entry(&Entry::Manifest(manifest)).map_err(failed)?;
        for event in &self.journal.events {
            writer.entry(&Entry::event(event.clone())).map_err(failed)?;
        }
        for (hash, bytes) in &self.journal.blobs {
            let entry = Entry::Blob { hash: *hash, content: Content::of(bytes.clone()) };
            writer.entry(&entry).map_err(failed)?;
        }
        if let Some(base) = &self.base {
            base.each_file::<Error>(|file| self.write_file(&mut writer, file))?;
        }
        let gzip = writer.end().map_err(failed)?;
        let mut buffer = gzip.finish().map_err(failed)?;
        buffer.flush().map_err(failed)?;
        let file = buffer.into_inner().map_err(|error| self.failed(error))?;
        Ok(file.metadata().map_err(failed)?.len())
    }

    fn write_file<W: Write>(&self, writer: &mut Writer<W>, file: BaseFile) -> Result<(), Error> {
        let BaseFile { path, kind, content } = file;
        let content = match self.secrets.clean(&content) {
            // A mark in a link's target would break the link.
            Some(cleaned) if kind != FileKind::Symlink => cleaned.bytes,
            _ => content,
        };
        let path = Content::of(path.as_os_str().as_bytes().to_vec());
        let entry = Entry::File { path, kind, content: Content::of(content) };
        writer.entry(&entry).map_err(|error| self.failed(error))
    }
}

/// Removes the secrets of a text. JSON stays JSON: each of its strings is cleaned separately.
fn clean_json(secrets: &Secrets, text: &[u8]) -> Option<RedactedText> {
    let Ok(mut value) = serde_json::from_slice::<Value>(text) else { return secrets.clean(text) };
    let mut found = Vec::new();
    clean_value(secrets, &mut value, &mut found);
    match serde_json::to_vec(&value) {
        Ok(bytes) if !found.is_empty() => Some(RedactedText { bytes, found }),
        // Found across several strings. If the cleaned text is not JSON, only the separately cleaned strings are used.
        _ => secrets
            .clean(text)
            .filter(|cleaned| serde_json::from_slice::<serde::de::IgnoredAny>(&cleaned.bytes).is_ok()),
    }
}

/// Cleans a field of an object. A value that is a secret only because of its name is searched like a text with both.
fn clean_field(secrets: &Secrets, name: &str, text: &mut String, found: &mut Vec<&'static str>) {
    if is_secret_field(name, text) {
        hide(text);
        found.push("a value with the name of a secret");
        return;
    }
    let both = format!("{name}: {text}");
    if let Some(cleaned) = secrets.clean(both.as_bytes()) {
        // A mark is as long as what it replaces, and names were cleaned before.
        let value = cleaned.bytes.get(name.len() + ": ".len()..).unwrap_or_default();
        *text = String::from_utf8_lossy(value).into_owned();
        found.extend(cleaned.found);
    }
}

fn clean_value(secrets: &Secrets, value: &mut Value, found: &mut Vec<&'static str>) {
    match value {
        Value::String(text) => {
            if let Some(cleaned) = secrets.clean(text.as_bytes()) {
                *text = String::from_utf8_lossy(&cleaned.bytes).into_owned();
                found.extend(cleaned.found);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean_value(secrets, item, found)),
        Value::Object(map) => {
            let fields = std::mem::take(map);
            for (mut name, mut field) in fields {
                if let Some(cleaned) = secrets.clean(name.as_bytes()) {
                    name = String::from_utf8_lossy(&cleaned.bytes).into_owned();
                    found.extend(cleaned.found);
                }
                match &mut field {
                    Value::String(text) => clean_field(secrets, &name, text, found),
                    field => clean_value(secrets, field, found),
                }
                map.insert(name, field);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_json_are_found_in_each_string_and_by_the_name_of_a_field() {
        let token = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
        for (text, secret) in [
            (serde_json::json!({"text": format!("one\n{token}\ntwo")}), token),
            (serde_json::json!({"text": "one\npass: hunter2222"}), "hunter2222"),
            (serde_json::json!({"apiKey": "my_key_v2"}), "my_key_v2"),
            (serde_json::json!({"db": {"password": "hunter2222"}}), "hunter2222"),
            (serde_json::json!({"text": "{\"apiKey\": \"abc123def456\"}"}), "abc123def456"),
            (serde_json::json!({"DB_PASS": "word"}), "word"),
        ] {
            let text = text.to_string();
            let cleaned = clean_json(&Secrets::default(), text.as_bytes())
                .unwrap_or_else(|| panic!("{text}: nothing is found"));
            let cleaned = String::from_utf8(cleaned.bytes).expect("text");
            assert!(!cleaned.contains(secret), "{cleaned}");
            serde_json::from_str::<Value>(&cleaned).expect("still JSON");
        }
        for text in [r#"{"apiKey": "process.env.KEY", "tokens": "12345678", "key": "abc123def456"}"#, "{}"] {
            assert_eq!(clean_json(&Secrets::default(), text.as_bytes()), None, "{text}");
        }
    }
}
