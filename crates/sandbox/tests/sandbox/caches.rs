//! Directories outside a workspace that are mounted in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use posse_sandbox::{BoxedCommand, Cache, CacheShown, Exit};
use posse_workspace::{CACHE_NAMES, caches, lay_out, remove_layers};
use tempfile::TempDir;

use crate::isolated::{State, said};

/// A user's folder with a cache, and an agent.
struct Project {
    state: State,
    folder: TempDir,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        for (name, text) in
            [("target/debug/app", "built"), ("target/lock", ""), (".env", "SECRET"), ("src/main", "x")]
        {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        Self { state: State::new(), folder }
    }

    fn caches(&self) -> Vec<Cache> {
        let ignored = |path: &Path| path.ends_with("target") || path.ends_with(".env");
        let found = caches(self.folder.path(), &CACHE_NAMES, &ignored);
        lay_out(self.folder.path(), &found, &self.state.dir.path().join("runs/r/layers/r.1"))
            .expect("laid out")
    }

    fn command(&self, script: &str) -> BoxedCommand {
        BoxedCommand { caches: self.caches(), ..self.state.command(script) }
    }

    async fn say(&self, script: &str) -> String {
        self.state.say(self.command(script)).await
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect(name)
    }
}

/// Whether this machine supports overlays in the tests' directory.
async fn overlays(project: &Project) -> bool {
    project.state.sandbox.cache_in(project.state.dir.path()).await.expect("an answer") == CacheShown::Overlay
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_goes_on_from_the_persons_and_never_reaches_it() {
    let project = Project::new();
    if !overlays(&project).await {
        println!("skipped: no overlays here");
        return;
    }
    // Large, so that a copy would be noticed: the overlay must not copy it.
    let big = fs::File::create(project.folder.path().join("target/big")).expect("made");
    big.set_len(1 << 30).expect("sparse");
    let first = "stat -c %s target/big; cat target/debug/app; echo mine > target/debug/app; echo new > target/new; \
                 mkdir target/deep; echo x > target/deep/file; rm target/lock; ls target";
    assert_eq!(project.say(first).await, "1073741824\nbuiltbig\ndebug\ndeep\nnew");
    // The next call starts with the changes of the first one.
    let second = "cat target/debug/app target/new target/deep/file; rm -r target/deep; mv target/new target/renamed; \
                  ls target; rm -rf target/debug; mkdir target/debug; ls target/debug";
    assert_eq!(project.say(second).await, "mine\nnew\nx\nbig\ndebug\nrenamed");
    assert_eq!(
        project.say("ls -A target target/debug").await,
        "target:\nbig\ndebug\nrenamed\n\ntarget/debug:"
    );
    assert_eq!(
        (project.read("target/debug/app"), project.read("target/lock")),
        ("built".into(), String::new())
    );
    let entries = fs::read_dir(project.folder.path().join("target")).expect("there").count();
    assert_eq!(entries, 3, "nothing was added to the person's");
    project.say("mkdir -p target/closed/deep; chmod 0 target/closed").await;
    let layers = project.state.dir.path().join("runs/r/layers/r.1");
    remove_layers(&layers).expect("removed");
    assert!(!layers.exists(), "what the kernel and the programs left can be removed");
    let left: Vec<_> = fs::read_dir(project.state.files().join("target")).expect("its place").collect();
    assert!(left.is_empty(), "nothing is in the workspace on disk: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_cache_of_the_persons_folder_is_visible() {
    let project = Project::new();
    let folder = project.folder.path().display();
    let look = format!(
        "cat target/../.env target/../src/main {folder}/.env 2>/dev/null; ls -A {folder} 2>/dev/null; ls -A; \
         find / -name .env -not -path '/proc/*' 2>/dev/null; grep -c 'nosuid,nodev.* ' <(grep ' /workspace/target ' \
         /proc/self/mountinfo)"
    );
    assert_eq!(project.say(&look).await, "target\n1");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_layer_a_cache_can_be_read() {
    let project = Project::new();
    let mut command = project.command("cat target/debug/app; (echo x > target/x) 2>/dev/null || echo closed");
    command.caches[0].layer = None;
    let ended = project.state.run(command).await;
    assert_eq!(said(&ended), "builtclosed");
    assert!(matches!(&ended.caches[..], [CacheShown::ReadOnly(_)]), "{:?}", ended.caches);
    // A missing layer does not fail the call.
    let mut command = project.command("cat target/debug/app");
    command.caches[0].layer = Some(PathBuf::from("/nowhere/layer"));
    let ended = project.state.run(command).await;
    assert_eq!(said(&ended), "built");
    assert!(matches!(&ended.caches[..], [CacheShown::ReadOnly(why)] if why.contains("cannot be opened")));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_planted_in_its_place_leads_the_mount_astray_or_fails_the_call() {
    let project = Project::new();
    let files = project.state.files();
    fs::create_dir_all(files.join("elsewhere/target")).expect("made");
    fs::write(files.join("elsewhere/target/own"), "own").expect("written");
    fs::write(files.join("file"), "").expect("written");
    symlink("elsewhere/target", files.join("target")).expect("made");
    symlink("elsewhere", files.join("above")).expect("made");
    symlink("/usr", files.join("out")).expect("made");
    let lower = project.folder.path().join("target");
    for at in ["target", "above/target", "out/lib", "file", "file/target", "../target", "/usr", ".", ""] {
        let caches = vec![Cache { lower: lower.clone(), at: PathBuf::from(at), below: None, layer: None }];
        let script = "cat elsewhere/target/own; find / -name app -path '*debug*' -not -path '/proc/*' 2>/dev/null; \
                      test -d /usr/bin && echo whole";
        let ended = project.state.run(BoxedCommand { caches, ..project.state.command(script) }).await;
        assert_eq!((said(&ended).as_str(), ended.exit), ("ownwhole", Exit::Code(0)), "{at}");
        assert!(matches!(&ended.caches[..], [CacheShown::Absent(_)]), "{at}: {:?}", ended.caches);
    }
}

/// The user's directory may be gone, or be a link by now.
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_no_directory_any_more_is_absent() {
    let project = Project::new();
    let caches = project.caches();
    fs::rename(project.folder.path().join("target"), project.folder.path().join("gone")).expect("renamed");
    for planted in [false, true] {
        if planted {
            symlink("src", project.folder.path().join("target")).expect("made");
        }
        let command =
            BoxedCommand { caches: caches.clone(), ..project.state.command("ls target/main; echo on") };
        let ended = project.state.run(command).await;
        assert!(said(&ended).ends_with("on") && !said(&ended).starts_with("target/main"), "{}", said(&ended));
        assert!(matches!(&ended.caches[..], [CacheShown::Absent(_)]), "{:?}", ended.caches);
    }
}

/// File locks do not reach from one overlay to another, so a layer has one user at a time.
#[tokio::test(flavor = "multi_thread")]
async fn two_commands_never_change_one_layer_at_once() {
    let project = Project::new();
    if !overlays(&project).await {
        println!("skipped: no overlays here");
        return;
    }
    crate::pipe(&project.state.files().join("up"));
    crate::pipe(&project.state.files().join("go"));
    let first = project.command("echo 1 > target/first; echo > up; read -r x < go; cat target/second");
    let turn = project.state.sandbox.acquire(&first.caches).await;
    let mut first = project.state.sandbox.start(turn, first).expect("started");
    let up = project.state.files().join("up");
    tokio::task::spawn_blocking(move || fs::read(up).expect("up")).await.expect("joined");
    let waits = futures::FutureExt::now_or_never(project.state.sandbox.acquire(&project.caches()));
    assert!(waits.is_none(), "the layer is taken");
    // A command that does not wait for the layer can only read it.
    let second = project.command("cat target/debug/app; (echo 2 > target/second) 2>/dev/null || echo closed");
    let turn = project.state.sandbox.turn().await;
    let second = project.state.sandbox.start(turn, second).expect("started").ended().await.expect("a result");
    assert_eq!(said(&second), "builtclosed");
    assert!(matches!(&second.caches[..], [CacheShown::ReadOnly(why)] if why.contains("another command")));
    let go = project.state.files().join("go");
    tokio::task::spawn_blocking(move || fs::write(go, "\n").expect("go")).await.expect("joined");
    assert_eq!(first.ended().await.expect("a result").exit, Exit::Code(1), "there is no second");
    assert_eq!(project.say("cat target/first").await, "1");
}

/// The state may be beneath a visible directory.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_hidden_stays_hidden_in_a_cache() {
    let project = Project::new();
    let caches = vec![Cache {
        below: None,
        lower: project.state.dir.path().parent().expect("above").to_owned(),
        at: PathBuf::from("target"),
        layer: None,
    }];
    let name = project.state.dir.path().file_name().expect("a name").to_string_lossy().into_owned();
    let script =
        format!("ls -dA target/{name} && ls -A target/{name}; cat target/{name}/journal 2>/dev/null");
    let command = BoxedCommand { caches, ..project.state.command(&script) };
    assert_eq!(project.state.say(command).await, format!("target/{name}"));
}

/// The kernel stores overlay metadata in extended attributes; a program's own attributes must not act as such.
#[tokio::test(flavor = "multi_thread")]
async fn no_program_can_write_the_notes_that_an_overlay_is_made_of() {
    let project = Project::new();
    if !overlays(&project).await {
        println!("skipped: no overlays here");
        return;
    }
    let plant = "import os\n\
                 os.makedirs('target/planted')\n\
                 for path in ['target', 'target/debug', 'target/planted', 'target/lock']:\n  \
                 for name, value in [('redirect', b'/debug'), ('opaque', b'y'), ('metacopy', b''), ('whiteout', b'y')]:\n    \
                 for prefix in ['user', 'trusted']:\n      \
                 try: os.setxattr(path, f'{prefix}.overlay.{name}', value)\n      \
                 except OSError: pass\n\
                 try: os.mknod('target/hidden', 0o20000 | 0o600, 0)\n\
                 except OSError: print('no device')\n";
    let planted = project.say(&format!("python3 - <<'END'\n{plant}END")).await;
    assert_eq!(planted, "no device");
    let look = "ls target target/debug target/planted; cat target/debug/app";
    let seen = "target:\ndebug\nlock\nplanted\n\ntarget/debug:\napp\n\ntarget/planted:\nbuilt";
    assert_eq!(project.say(look).await, seen);
}
