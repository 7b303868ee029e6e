//! Folds deep stacks of layers: makes a base of the newest state in the background, and later states are layers over it.
//!
//! The layers stay for those who use them. A process that ends meanwhile leaves an unfinished directory, which the next
//! one removes, and no base.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::checkout::Source;
use super::super::{RepositoryError, RunSpace};
use super::find::ProjectStates;
use super::maker::StateMaker;
use super::making::MakingLock;
use super::{BaseState, FILES};

/// From this many thin layers on, a base is made of the newest state. Below the number of layers that a state may have,
/// because states come while the base is laid out.
pub(super) const FOLD_DEPTH: usize = 8;
/// The name of the lock that allows one fold of a project at a time.
const FOLD: &str = "fold";
/// The priority of the thread that folds: agents wait for their own files, and no agent waits for this.
const NICENESS: i32 = 10;
/// Later than any file was changed: the files of a layer never are.
const NEVER_CHANGED_NS: i128 = i128::MAX;

/// Begins to fold the layers of a state, unless that is under way in this process.
pub(super) fn begin(space: &RunSpace, state: &Arc<BaseState>) {
    let Some(folding) = FoldMark::begin(space, state) else { return };
    let (space, state) = (space.clone(), state.clone());
    let work = move || {
        // Without it the fold only disturbs others a little more.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        // A stack that is not folded works too, and the next state tries again.
        let _ = fold(&space, &state);
        drop(folding);
        space.spaces.options.hit("workspace.fold.ended");
    };
    // Without a thread, the next state tries again.
    let _ = std::thread::Builder::new().name("posse-fold".to_owned()).spawn(work);
}

/// Marks a project as being folded by this process.
struct FoldMark {
    space: RunSpace,
    top: PathBuf,
}

impl FoldMark {
    fn begin(space: &RunSpace, state: &BaseState) -> Option<Self> {
        let top = state.dir.parent()?.to_owned();
        let begun = space.spaces.bases.folding().insert(top.clone());
        begun.then(|| Self { space: space.clone(), top })
    }
}

impl Drop for FoldMark {
    fn drop(&mut self) {
        self.space.spaces.bases.folding().remove(&self.top);
    }
}

fn fold(space: &RunSpace, state: &Arc<BaseState>) -> Result<(), RepositoryError> {
    let states = ProjectStates::of(space)?;
    let Some(making) = MakingLock::take(space, FOLD)? else { return Ok(()) };
    if states.folded(state)?.is_some() {
        return Ok(());
    }
    StateMaker::new(&states, &making)?.fold(state).map(drop)
}

impl BaseState {
    /// The layers as folders that have the files.
    pub(super) fn as_sources(&self) -> Option<Vec<Source>> {
        let mut manifest = self.manifest()?;
        manifest.looked_ns = NEVER_CHANGED_NS;
        let mut sources = vec![Source { folder: self.dir.join(FILES), manifest }];
        if let Some(below) = &self.below {
            sources.extend(below.as_sources()?);
        }
        Some(sources)
    }
}

impl ProjectStates<'_> {
    /// The base that the layers of a state, or the upper part of them, were folded to.
    pub(super) fn folded(&self, state: &Arc<BaseState>) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        let mut next = Some(state);
        while let Some(layer) = next.filter(|layer| layer.depth > 0) {
            if let Some(base) = self.find_base(&layer.commit)? {
                return Ok(Some(base));
            }
            next = layer.below.as_ref();
        }
        Ok(None)
    }
}
