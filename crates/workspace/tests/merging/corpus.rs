//! Ways to plant files in a workspace so that code runs, or a path leads outside, when another user runs git on it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::project::{set_executable, write};

/// Where a case is planted, and what it may use.
pub(crate) struct Ground<'a> {
    /// A workspace.
    pub(crate) dir: &'a Path,
    /// A program that touches the canary.
    pub(crate) program: String,
    /// A directory that must stay unchanged, with a hostile repository `evil` in it.
    pub(crate) outside: &'a Path,
    /// The agent's own git in the workspace.
    pub(crate) git: &'a dyn Fn(&[&str]),
}

impl Ground<'_> {
    fn config(&self, text: &str) {
        let path = self.dir.join(".git/config");
        let before = fs::read_to_string(&path).unwrap_or_default();
        write(self.dir, ".git/config", format!("{before}\n{}\n", text.replace("RUN", &self.program)));
    }

    fn write(&self, path: &str, text: &str) {
        let text = text.replace("RUN", &self.program).replace("OUTSIDE", &self.outside.to_string_lossy());
        write(self.dir, path, text);
    }

    fn script(&self, path: &str) {
        self.write(path, "#!/bin/sh\nexec RUN\n");
        set_executable(self.dir, path);
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.dir.join(path);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(&path).expect("removed");
        } else {
            drop(fs::remove_file(&path));
        }
        let target = target.replace("OUTSIDE", &self.outside.to_string_lossy());
        symlink(target, path).expect("made");
    }

    fn pipe(&self, path: &str) {
        drop(fs::remove_file(self.dir.join(path)));
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mknodat(rustix::fs::CWD, self.dir.join(path), rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
    }
}

type Case = (&'static str, fn(&Ground<'_>));

/// Configuration that names a program, and needs nothing else.
const SETTINGS: &[(&str, &str)] = &[
    ("fsmonitor", "[core]\nfsmonitor = RUN"),
    ("ssh command", "[core]\nsshCommand = RUN\n[remote \"origin\"]\nurl = ssh://x/y\nfetch = +refs/*:refs/*"),
    ("pager", "[core]\npager = RUN\n[pager]\ndiff = RUN\nlog = RUN\nstatus = RUN"),
    ("editor", "[core]\neditor = RUN\n[sequence]\neditor = RUN"),
    ("ask pass", "[core]\naskPass = RUN"),
    ("git proxy", "[core]\ngitProxy = RUN\n[remote \"origin\"]\nurl = git://x/y"),
    ("alternate refs", "[core]\nalternateRefsCommand = RUN"),
    ("external diff", "[diff]\nexternal = RUN"),
    ("credential helper", "[credential]\nhelper = !RUN"),
    ("signing", "[gpg]\nprogram = RUN\n[commit]\ngpgSign = true\n[user]\nsigningKey = x"),
    (
        "signing by ssh",
        "[gpg]\nformat = ssh\n[gpg \"ssh\"]\nprogram = RUN\n[commit]\ngpgSign = true\n[user]\nsigningKey = key::x",
    ),
    (
        "aliases",
        "[alias]\nstatus = !RUN\nmerge-tree = !RUN\ndiff-tree = !RUN\ncat-file = !RUN\nls-tree = !RUN",
    ),
    ("pack objects hook", "[uploadpack]\npackObjectsHook = RUN"),
    ("upload pack", "[remote \"origin\"]\nurl = .\nuploadpack = RUN\nreceivepack = RUN"),
    (
        "external protocol",
        "[protocol]\nallow = always\n[remote \"origin\"]\nurl = ext::RUN\n[url \"ext::RUN\"]\ninsteadOf = /",
    ),
    (
        "promisor",
        "[extensions]\npartialClone = origin\n[remote \"origin\"]\npromisor = true\nurl = ext::RUN\n[protocol]\nallow = always",
    ),
    ("trailers", "[trailer \"x\"]\ncommand = RUN\ncmd = RUN"),
    ("interactive filter", "[interactive]\ndiffFilter = RUN"),
    (
        "submodule update",
        "[submodule]\nrecurse = true\n[submodule \"s\"]\nupdate = !RUN\nurl = .\nactive = true",
    ),
    ("maintenance", "[gc]\nauto = 1\n[maintenance]\nauto = true"),
    ("include", "[include]\npath = ../included"),
    ("another work tree", "[core]\nworktree = OUTSIDE"),
];

/// Attributes with the programs they select.
const DRIVERS: &[(&str, &str, &str)] = &[
    ("clean filter", "filter=evil", "[filter \"evil\"]\nclean = RUN\nrequired = true"),
    ("smudge filter", "filter=evil", "[filter \"evil\"]\nsmudge = RUN"),
    ("filter process", "filter=evil", "[filter \"evil\"]\nprocess = RUN"),
    ("diff command", "diff=evil", "[diff \"evil\"]\ncommand = RUN"),
    ("text conversion", "diff=evil", "[diff \"evil\"]\ntextconv = RUN\ncachetextconv = true"),
    ("merge driver", "merge=evil", "[merge \"evil\"]\ndriver = RUN %O %A %B\nrecursive = evil"),
    ("default merge driver", "merge", "[merge]\ndefault = evil\n[merge \"evil\"]\ndriver = RUN %O %A %B"),
    (
        "large files",
        "filter=lfs diff=lfs merge=lfs -text",
        "[filter \"lfs\"]\nclean = RUN\nsmudge = RUN\nprocess = RUN",
    ),
    ("encoding", "working-tree-encoding=UTF-16 ident eol=crlf", "[core]\nautocrlf = true"),
];

const HOOKS: &[&str] = &[
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-checkout",
    "post-merge",
    "pre-merge-commit",
    "post-index-change",
    "reference-transaction",
    "pre-auto-gc",
    "post-rewrite",
    "pre-push",
    "pre-receive",
    "update",
    "post-receive",
    "post-update",
    "proc-receive",
    "push-to-checkout",
    "fsmonitor-watchman",
    "pre-rebase",
];

/// Cases that are neither a setting nor a driver.
const OTHERS: &[Case] = &[
    ("hooks", |ground| {
        for hook in HOOKS {
            ground.script(&format!(".git/hooks/{hook}"));
        }
    }),
    ("hooks in the work tree", |ground| {
        for hook in HOOKS {
            ground.script(&format!("hooks/{hook}"));
        }
        ground.config("[core]\nhooksPath = hooks");
    }),
    ("attributes of the repository", |ground| {
        ground.write(".git/info/attributes", "* filter=evil diff=evil merge=evil\n");
        ground.config(
            "[filter \"evil\"]\nclean = RUN\n[merge \"evil\"]\ndriver = RUN\n[diff \"evil\"]\ncommand = RUN",
        );
    }),
    ("attributes elsewhere", |ground| {
        ground.write("attributes", "* filter=evil\n");
        ground.config("[core]\nattributesFile = attributes\n[filter \"evil\"]\nclean = RUN");
    }),
    ("configuration of the work tree", |ground| {
        ground.config("[extensions]\nworktreeConfig = true");
        ground.write(".git/config.worktree", "[core]\nfsmonitor = RUN\n");
    }),
    ("git as a file", |ground| {
        fs::remove_dir_all(ground.dir.join(".git")).expect("removed");
        ground.write(".git", "gitdir: OUTSIDE/evil/.git\n");
    }),
    ("git as a link", |ground| ground.link(".git", "OUTSIDE/evil/.git")),
    ("git as a link to nothing", |ground| ground.link(".git", "/nonexistent/x")),
    ("git as a pipe", |ground| {
        fs::remove_dir_all(ground.dir.join(".git")).expect("removed");
        ground.pipe(".git");
    }),
    ("no git", |ground| fs::remove_dir_all(ground.dir.join(".git")).expect("removed")),
    ("a common directory elsewhere", |ground| ground.write(".git/commondir", "OUTSIDE/evil/.git\n")),
    ("a head elsewhere", |ground| {
        ground.link(".git/HEAD", "OUTSIDE/evil/.git/HEAD");
        ground.link(".git/refs", "OUTSIDE/evil/.git/refs");
    }),
    ("refs that lead elsewhere", |ground| {
        ground.write(".git/refs/heads/work", "ref: ../../../../OUTSIDE/evil/.git/refs/heads/main\n");
    }),
    ("alternates", |ground| {
        ground.write(".git/objects/info/alternates", "OUTSIDE/evil/.git/objects\n");
        ground.write(".git/objects/info/http-alternates", "http://localhost:1/\n");
    }),
    ("objects elsewhere", |ground| ground.link(".git/objects", "OUTSIDE/evil/.git/objects")),
    ("replaced objects and grafts", |ground| {
        ground.write(".git/info/grafts", "0000000000000000000000000000000000000000\n");
        ground.write(".git/refs/replace/0000000000000000000000000000000000000001", "junk\n");
    }),
    ("a broken index", |ground| ground.write(".git/index", "DIRCjunk")),
    ("locks", |ground| {
        ground.write(".git/index.lock", "");
        ground.write(".git/config.lock", "");
    }),
    ("a repository inside", |ground| {
        ground.write("nested/.git/config", "[core]\nrepositoryformatversion = 0\nfsmonitor = RUN\n");
        ground.write("nested/.git/HEAD", "ref: refs/heads/main\n");
        ground.script("nested/.git/hooks/post-checkout");
        ground.write("nested/file", "inside\n");
        fs::create_dir_all(ground.dir.join("nested/.git/objects")).expect("made");
        fs::create_dir_all(ground.dir.join("nested/.git/refs")).expect("made");
    }),
    ("a bare repository inside", |ground| {
        ground.write("config", "[core]\nbare = true\nfsmonitor = RUN\n");
        ground.write("HEAD", "ref: refs/heads/main\n");
        ground.write("objects/info/packs", "\n");
        ground.write("refs/heads/main", "\n");
        ground.script("hooks/post-checkout");
    }),
    ("a submodule", |ground| {
        ground.write(".gitmodules", "[submodule \"s\"]\npath = s\nurl = ext::RUN\nupdate = !RUN\n");
        (ground.git)(&["-c", "protocol.allow=always", "submodule", "add", "-f", "./.git", "s"]);
        ground.write("s/.git", "gitdir: OUTSIDE/evil/.git\n");
    }),
    ("a submodule whose path is an option", |ground| {
        ground.write(".gitmodules", "[submodule \"-u./x\"]\npath = -u./x\nurl = -u./payload\n");
    }),
    ("a committed gitlink", |ground| {
        (ground.git)(&[
            "update-index",
            "--add",
            "--cacheinfo",
            "160000,1111111111111111111111111111111111111111,s",
        ]);
        (ground.git)(&["commit", "-q", "-m", "link"]);
    }),
    ("other spellings of git", |ground| {
        for name in [".GIT", ".git ", ".git.", "git~1", ".g\u{200c}it", ".git::$INDEX_ALLOCATION"] {
            ground.write(&format!("{name}/config"), "[core]\nfsmonitor = RUN\n");
            ground.script(&format!("{name}/hooks/post-checkout"));
        }
    }),
    ("a directory that became a link outside", |ground| ground.link("dir", "OUTSIDE")),
    ("a file that became a link outside", |ground| {
        ground.link("a", "OUTSIDE/victim");
        ground.link("new", "/etc/passwd");
        ground.link("up", "../../../../../../../../etc");
    }),
    ("a link to the repository", |ground| {
        ground.link("hooks", ".git/hooks");
        ground.link("config", ".git/config");
    }),
    ("links that go round", |ground| {
        ground.link("x", "y");
        ground.link("y", "x");
        ground.link("self", "self/self");
    }),
    ("rules as links", |ground| {
        ground.link(".gitignore", "OUTSIDE/victim");
        ground.link(".gitattributes", "OUTSIDE/victim");
        ground.link(".gitmodules", "OUTSIDE/victim");
        ground.link("dir/.gitignore", "/dev/zero");
    }),
    ("rules as pipes and directories", |ground| {
        ground.pipe(".gitattributes");
        ground.pipe("dir/.gitignore");
        ground.write(".gitignore/x", "x");
    }),
    ("pipes and sockets", |ground| {
        ground.pipe("pipe");
        ground.pipe("dir/b");
        drop(std::os::unix::net::UnixListener::bind(ground.dir.join("socket")));
    }),
    ("names like options", |ground| {
        for name in ["--output=canary", "-c", "--upload-pack=RUN", "--exec-path=.", "-", "--"] {
            ground.write(name, "x");
        }
    }),
    ("names that break lines", |ground| {
        for name in ["a\nb", "x\t100644", "\"quoted\"", ":(top)x", "!x", "\u{1b}[31m", "*", "a\\..\\..\\x"] {
            ground.write(name, "x");
        }
    }),
    ("settings of other tools", |ground| {
        ground.write(".lfsconfig", "[lfs]\nurl = ext::RUN\n");
        ground.write(".gitconfig", "[core]\nfsmonitor = RUN\n");
        ground.write(".config/git/config", "[core]\nfsmonitor = RUN\n");
        ground.write(".mailmap", "x <x@y>\n");
    }),
    ("programs called git", |ground| {
        for name in ["git", "sh", "git-merge-tree", "git-remote-ext", "ssh", "dir/git"] {
            ground.script(name);
        }
    }),
];

/// Plants a case.
pub(crate) type Plant = Box<dyn Fn(&Ground<'_>) + Send + Sync>;

/// All cases, by name.
pub(crate) fn cases() -> Vec<(String, Plant)> {
    let mut cases: Vec<(String, Plant)> = Vec::new();
    for (name, text) in SETTINGS {
        let plant = move |ground: &Ground<'_>| {
            ground.write("included", "[core]\nfsmonitor = RUN\n");
            ground.config(&text.replace("OUTSIDE", &ground.outside.to_string_lossy()));
        };
        cases.push(((*name).to_owned(), Box::new(plant)));
    }
    for (name, attributes, text) in DRIVERS {
        let plant = move |ground: &Ground<'_>| {
            ground.write(".gitattributes", &format!("* {attributes}\n"));
            ground.write(".git/info/attributes", &format!("* {attributes}\n"));
            ground.config(text);
        };
        cases.push(((*name).to_owned(), Box::new(plant)));
    }
    for (name, plant) in OTHERS {
        cases.push(((*name).to_owned(), Box::new(plant)));
    }
    cases
}
