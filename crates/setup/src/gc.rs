//! Prepares a cleaning of the state directory: the ages of the user's settings, and how the directory is opened.

use std::time::Duration;

use posse::{GcRequest, Posse};

use crate::Setup;
use crate::error::OpenError;
use crate::settings::Settings;

/// A cleaning that can be executed: `posse.clean(request)`.
pub struct PreparedCleaning {
    /// The options of the cleaning.
    pub request: GcRequest,
    /// The state directory.
    pub posse: Posse,
}

impl PreparedCleaning {
    /// Prepares a cleaning with the ages of the user's settings. With `runs_older_than`, whole runs are removed that ended
    /// at least this long ago. A dry run, and a cleaning that keeps all journals, open the state directory read only.
    pub fn new(dry_run: bool, runs_older_than: Option<Duration>, setup: &Setup) -> Result<Self, OpenError> {
        let settings = Settings::own(&setup.environment)?;
        let request = GcRequest { dry_run, runs_older_than, ..settings.gc.apply(GcRequest::default()) };
        // A missing state directory is not created just to be cleaned.
        let writes = runs_older_than.is_some() && !dry_run && setup.state_dir()?.exists();
        let posse = if writes { setup.open_for_commands()? } else { setup.open_read_only()? };
        Ok(Self { request, posse })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;

    #[tokio::test]
    async fn a_cleaning_has_the_ages_of_the_settings_and_creates_no_state_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().canonicalize().expect("a path");
        std::fs::create_dir_all(home.join(".config/posse")).expect("made");
        std::fs::write(home.join(".config/posse/settings.yaml"), "gc: {workspaces: 2d}\n").expect("written");
        let setup = Setup::new(Environment::new(home.clone(), [("HOME".into(), home.into())]));
        let day = Duration::from_hours(24);
        let PreparedCleaning { request, posse } =
            PreparedCleaning::new(false, Some(day), &setup).expect("a cleaning");
        assert_eq!((request.workspaces_older_than, request.runs_older_than), (2 * day, Some(day)));
        assert_eq!(request.salvage_older_than, GcRequest::default().salvage_older_than);
        assert!(posse.clean(request).await.expect("cleaned").removed.is_empty());
        assert!(!setup.state_dir().expect("a state directory").exists());
    }
}
