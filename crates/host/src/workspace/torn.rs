//! Workspaces that the machine lost part of when it stopped.

use std::fs;

use super::content;
use super::refs::{torn_ref, work_ref};
use super::run::Mark;
use super::snapshot::Looked;
use super::{Oid, RunSpace, WorkspaceError, disk, objects, synced};

impl RunSpace {
    /// Whether the machine stopped before a workspace had reached the disk.
    pub(super) fn is_torn(&self, agent: &str, attempt: u32, mark: &Mark) -> bool {
        let now = self.spaces.options.boot();
        synced::is_torn(&self.attempt_dir(agent, attempt), mark.boot.as_deref(), now.as_deref())
    }

    /// Puts a torn workspace where nobody takes it for one, and keeps what can be read of it; says what became of it.
    pub(super) fn set_aside(&self, agent: &str, attempt: u32) -> Result<String, WorkspaceError> {
        // Before it is moved: cut off between the two, this is done again.
        let kept = self.keep_torn(agent, attempt);
        self.spaces.options.hit("workspace.torn.before_rename");
        let home = self.attempt_dir(agent, attempt);
        let name = home.file_name().unwrap_or_default().to_string_lossy();
        let aside = disk::temporary(&home.with_file_name(format!("torn-{name}")));
        fs::rename(&home, &aside).map_err(disk::failed("setting aside", &home))?;
        let became = match kept {
            Ok(None) => "nothing in it differed from its line".to_owned(),
            Ok(Some(name)) => format!("what could be read of it is kept as {name}"),
            Err(error) => format!("it could not be read ({error})"),
        };
        Ok(format!(
            "the machine stopped before the workspace of {agent} (attempt {attempt}) had reached the disk, and it was made \
             anew from its last snapshot; {became}; as it was found it is at {}",
            aside.display()
        ))
    }

    /// Commits what can be read of a torn workspace beside its line, reachable from its torn ref; none if that is
    /// what the line has.
    fn keep_torn(&self, agent: &str, attempt: u32) -> Result<Option<String>, WorkspaceError> {
        let refs = self.refs();
        let line = refs.read(&work_ref(agent, attempt))?;
        let tip = line.ok_or_else(|| WorkspaceError::Damaged("its line is gone".to_owned()))?;
        // Times vouch for nothing here: files have them that never got their content.
        let Looked { trees, tree, present, pack, .. } = self.look(agent, attempt, &tip, false)?;
        let name = torn_ref(agent, attempt);
        let before = refs.read(&name)?;
        let git = self.git();
        let same = |commit: &Oid| objects::tree_of(&git, commit).map(|other| other == tree);
        if same(&tip)? {
            return Ok(None);
        }
        if before.as_ref().map_or(Ok(false), same)? {
            return Ok(Some(name));
        }
        content::add_trees(&trees, &present, &pack)?;
        let parents: Vec<Oid> = [tip].into_iter().chain(before).collect();
        let message = format!("posse: work of {agent}, as far as the machine kept it");
        let commit = super::add_commit(&pack, &tree, &parents, &message)?;
        let lock = self.project.lock()?;
        pack.finish()?;
        refs.swap(&lock, &name, before.as_ref(), &commit)?;
        Ok(Some(name))
    }
}
