//! Objects of a run, exported on one machine and imported on another: two state directories represent the machines.

use std::fs;
use std::path::Path;

use posse_domain::id::{AgentId, RunId};
use posse_engine::ports::{ObjectTransfer, RunFiles, Workspaces};
use posse_sandbox::{Sandbox, SandboxOptions};
use posse_workspace::{LocalFiles, LocalWorkspaces, ObjectId, WorkspaceSettings, salvage_ref, work_ref};

use crate::support::{RUN, World, fingerprint, names_of, text_of};

fn run() -> RunId {
    RUN.parse().expect("an id")
}

/// The state of another machine, which does not have the user's folder.
fn other(world: &World) -> LocalFiles {
    LocalFiles::new(&world.elsewhere("other"), world.options.clone())
}

fn child() -> String {
    format!("{RUN}.1")
}

/// A run whose child has changed files: returns the base and the child's salvage commit.
fn worked(world: &World) -> (ObjectId, ObjectId) {
    world.write("kept.txt", "kept\n");
    world.write("changed.txt", "before\n");
    world.commit_all();
    world.write("uncommitted.txt", "seen by the run\n");
    let (base, space) = world.begin();
    let made = space.make(&child(), 1, &base.snapshot.commit).expect("made");
    fs::write(made.dir.join("changed.txt"), "after\n").expect("written");
    fs::write(made.dir.join("new.txt"), "new\n").expect("written");
    let salvaged = space.salvage(&child(), 1).expect("salvaged");
    (base.snapshot.commit, salvaged.snapshot.commit)
}

#[tokio::test]
async fn a_workspace_is_made_on_another_machine_from_imported_objects() {
    let world = World::repository();
    let (base, salvaged) = worked(&world);
    let transfer =
        world.spaces().export_objects(&run(), vec![base, salvaged], Vec::new()).await.expect("exported");
    // The other machine has neither the first state directory nor the user's folder.
    let before = fingerprint(&world.state());
    fs::rename(world.state(), world.elsewhere("gone")).expect("away");
    fs::rename(world.folder(), world.elsewhere("folder-gone")).expect("away");
    other(&world).import_objects(&run(), transfer.clone()).await.expect("imported");
    other(&world).import_objects(&run(), transfer).await.expect("the same again changes nothing");
    assert_eq!(fingerprint(&world.elsewhere("gone")), before, "an export reads only");

    let sandbox = Sandbox::new(SandboxOptions::default());
    let workspaces = LocalWorkspaces::new(&world.elsewhere("other"), sandbox, WorkspaceSettings::default());
    let agent: AgentId = format!("{RUN}.2").parse().expect("an id");
    let of = posse_engine::ports::WorkspaceId { agent, attempt: 1 };
    let made = workspaces.make(of.clone(), salvaged).await.expect("made");
    let read = |name: &str| fs::read_to_string(made.dir.join(name)).expect(name);
    assert_eq!((read("kept.txt"), read("changed.txt")), ("kept\n".to_owned(), "after\n".to_owned()));
    assert_eq!(
        (read("new.txt"), read("uncommitted.txt")),
        ("new\n".to_owned(), "seen by the run\n".to_owned())
    );
    fs::write(made.dir.join("new.txt"), "newer\n").expect("written");
    let snapshot = workspaces.snapshot(of).await.expect("committed there");
    let space = other(&world).open(RUN).expect("opened");
    assert_eq!(text_of(&space, &snapshot, "new.txt").as_deref(), Some("newer\n"));
    assert_eq!(names_of(&space, &base), ["changed.txt", "kept.txt", "uncommitted.txt"]);
}

#[tokio::test]
async fn refs_come_with_their_objects_and_those_of_the_machine_stay() {
    let world = World::repository();
    let (base, salvaged) = worked(&world);
    let transfer =
        world.spaces().export_objects(&run(), vec![base, salvaged], Vec::new()).await.expect("exported");
    other(&world).import_objects(&run(), transfer.clone()).await.expect("imported");
    let space = other(&world).open(RUN).expect("opened");
    for name in [work_ref(&child(), 1), salvage_ref(&child(), 1)] {
        assert_eq!(space.read_ref(&name).expect("read"), Some(salvaged), "{name}");
    }
    assert_eq!(space.base().expect("a base").commit, base);
    let name = work_ref(&child(), 1);
    let held = space.lock_ref(&name).expect("a lock");
    space.swap_ref(&held, &name, Some(&salvaged), &base).expect("moved");
    drop(held);
    other(&world).import_objects(&run(), transfer).await.expect("imported");
    assert_eq!(space.read_ref(&work_ref(&child(), 1)).expect("read"), Some(base), "it is this machine's");
}

#[tokio::test]
async fn only_what_the_bases_lack_is_exported_and_they_must_be_there() {
    let world = World::repository();
    world.write("large.bin", (0..200_000).map(|_| noise()).collect::<Vec<u8>>());
    let (base, salvaged) = worked(&world);
    let files = world.spaces();
    let whole = files.export_objects(&run(), vec![base], Vec::new()).await.expect("exported");
    let rest = files.export_objects(&run(), vec![salvaged], vec![base]).await.expect("exported");
    assert!(whole.0.len() > 100_000 && rest.0.len() < 10_000, "{} and {}", whole.0.len(), rest.0.len());
    let refused = other(&world).import_objects(&run(), rest.clone()).await.expect_err("its base is missing");
    assert!(refused.to_string().contains(&format!("build on {base}, which is not here")), "{refused}");
    other(&world).import_objects(&run(), whole).await.expect("imported");
    other(&world).import_objects(&run(), rest).await.expect("imported");
    let space = other(&world).open(RUN).expect("opened");
    assert_eq!(text_of(&space, &salvaged, "changed.txt").as_deref(), Some("after\n"));
}

/// Bytes that hardly compress: a hashed counter.
fn noise() -> u8 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (number >> 32 ^ number >> 17).to_le_bytes()[0]
}

#[tokio::test]
async fn damaged_or_foreign_bytes_change_nothing() {
    let world = World::repository();
    let (base, salvaged) = worked(&world);
    let ObjectTransfer(good) =
        world.spaces().export_objects(&run(), vec![base, salvaged], Vec::new()).await.expect("exported");
    let line = good.iter().position(|byte| *byte == b'\n').expect("a line");
    let mut flipped = good.clone();
    flipped[line + 40] ^= 1;
    let without_pack = good[..=line].to_vec();
    let text = String::from_utf8(good[..line].to_vec()).expect("JSON");
    let newer = text.replacen("\"posse_objects\":1", "\"posse_objects\":2", 1);
    let foreign = text.replacen(&format!("refs/posse/work/{RUN}"), "refs/posse/work/x9999999", 1);
    let with = |head: String| [head.as_bytes(), &good[line..]].concat();
    for (name, bytes) in [
        ("nothing", Vec::new()),
        ("no transfer", b"PACK".to_vec()),
        ("a cut pack", good[..good.len() - 10].to_vec()),
        ("a flipped bit", flipped),
        ("no pack", without_pack),
        ("a newer format", with(newer)),
        ("a ref of another run", with(foreign)),
    ] {
        let refused = other(&world).import_objects(&run(), ObjectTransfer(bytes)).await;
        assert!(refused.is_err(), "{name}");
        assert!(other(&world).open(RUN).is_err(), "{name}: the run has files");
        assert!(!Path::new(&world.elsewhere("other")).join("runs").exists(), "{name}");
    }
    let stranger: RunId = "x9999999".parse().expect("an id");
    let refused =
        other(&world).import_objects(&stranger, ObjectTransfer(good)).await.expect_err("another run");
    assert!(refused.to_string().contains("are of run"), "{refused}");
}
