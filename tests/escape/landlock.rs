//! The corpus without namespaces: the promises that this level does not keep, as `posse doctor` lists them, with the
//! cases that need them. Everything else has to hold.

use super::case::Case;
use super::world::{Level, Setting, World};
use super::{GROUPS, LEAST, carry_out, holds, somebody};

/// A promise that is not kept without namespaces.
struct UnkeptPromise {
    /// The doctor's text for it.
    promise: &'static str,
    /// Cases that succeed, or find something missing, but change nothing that is checked from outside.
    seen: &'static [&'static str],
    /// Cases that are not run: they would change the user's files or processes.
    harmful: &'static [&'static str],
}

const UNKEPT: &[UnkeptPromise] = &[
    UnkeptPromise {
        promise: "no program can use the network, also if it is granted, nor talk to itself over loopback",
        seen: &["own-loopback-works"],
        harmful: &[],
    },
    UnkeptPromise {
        promise: "programs see the machine's processes with their command lines",
        seen: &["only-own-processes-are-seen", "others-in-proc", "others-by-descriptor", "signals-by-name"],
        harmful: &[],
    },
    UnkeptPromise {
        promise: "programs can change the modes, times and attributes of your files",
        seen: &[],
        harmful: &["modes-outside", "attributes-outside"],
    },
    UnkeptPromise {
        promise: "programs see that a path exists, with its size and times, and the machine's network in /proc/net",
        seen: &["devices", "interfaces"],
        harmful: &[],
    },
    UnkeptPromise {
        promise: "only root can give up for good the privileges of set-user-id programs",
        seen: &["capabilities-to-get"],
        harmful: &[],
    },
    UnkeptPromise {
        promise: "/tmp cannot be used: only $TMPDIR and $HOME, which are private",
        seen: &["scratch-is-its-own", "scratch-filled"],
        harmful: &[],
    },
    UnkeptPromise {
        promise: "programs see a workspace where it is on the machine",
        seen: &["workdir-inside", "workdir-inside-absolute", "poison-is-gone"],
        harmful: &[],
    },
];

/// The promise that a case needs and that is not kept here.
pub(crate) fn lacks(setting: Setting, case: &Case) -> Option<&'static str> {
    let needs = |unkept: &&UnkeptPromise| unkept.seen.contains(&case.name);
    (setting.level == Level::Landlock).then(|| UNKEPT.iter().find(needs))?.map(|unkept| unkept.promise)
}

/// Whether a case would harm the user, because a promise is not kept here.
pub(crate) fn is_harmful(setting: Setting, case: &Case) -> bool {
    setting.level == Level::Landlock && UNKEPT.iter().any(|unkept| unkept.harmful.contains(&case.name))
}

/// The oldest Landlock that keeps a program from signalling other processes of its user.
const KEEPS_SIGNALS: u32 = 6;

/// Whether the corpus can be run without namespaces: its signals would reach the processes of the user who runs it.
fn can_be_run(world: &World) -> bool {
    let doctor = world.doctor();
    let (_, level) =
        doctor.split_once("no-namespaces landlock-").unwrap_or_else(|| panic!("no level: {doctor}"));
    let digits: String = level.chars().take_while(char::is_ascii_digit).collect();
    let can = digits.parse::<u32>().is_ok_and(|version| version >= KEEPS_SIGNALS);
    if !can {
        println!(
            "not run: Landlock {digits} lets signals through, and the corpus sends them to all processes"
        );
    }
    can
}

#[test]
fn without_namespaces_nothing_gets_out_but_what_is_not_promised() {
    all(Setting { level: Level::Landlock, user: None });
}

#[test]
fn without_namespaces_nothing_of_an_ordinary_user_gets_out_but_what_is_not_promised() {
    somebody(Level::Landlock).into_iter().for_each(all);
}

fn all(setting: Setting) {
    let world = World::new(setting, super::PLAIN);
    if can_be_run(&world) {
        holds(&carry_out(GROUPS, setting), LEAST);
    }
}

/// A user who requests weaker isolation sees what is missing, and nothing else is missing.
#[test]
fn the_doctor_names_every_promise_that_a_case_goes_without() {
    let doctor = World::new(Setting { level: Level::Landlock, user: None }, super::PLAIN).doctor();
    for UnkeptPromise { promise, .. } in UNKEPT {
        assert!(doctor.contains(promise), "`{promise}` is not in:\n{doctor}");
    }
    let names: Vec<&str> = GROUPS.iter().flat_map(|(_, cases, _)| cases()).map(|case| case.name).collect();
    for name in UNKEPT.iter().flat_map(|unkept| unkept.seen.iter().chain(unkept.harmful)) {
        assert!(names.contains(name), "there is no case `{name}`");
    }
}
