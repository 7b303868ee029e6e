//! Writing and damaging files outside the workspace.

use serde_json::json;

use super::case::{Case, call, py, sh};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = by_commands();
    cases.extend(by_programs());
    cases.extend(by_tools());
    cases
}

fn by_commands() -> Vec<Case> {
    vec![
        sh("inside-can-be-written", "echo fine > made.txt && cat made.txt").shows("fine"),
        sh("new-in-the-persons-folder", "echo x > @ws@/@tag@; echo x > @ws@/README.md; rm -rf @ws@/src; ls @ws@ && breach"),
        sh("new-beside-the-workspace", "echo x > @state@/runs/@tag@; ls -d @state@/runs/*/workspaces && breach; echo x > /run/posse/objects/@tag@ && breach; echo x > /run/posse/objects/info/alternates && breach; rm -rf /run/posse/objects/*"),
        sh("new-in-sibling", "echo x > @top@/sibling/@tag@"),
        sh("new-in-twin", "echo x > @top@/ws-evil/@tag@; echo x > @ws@-evil/@tag@"),
        sh("new-in-parent", "echo x > ../@tag@; mkdir ../@tag@-dir"),
        sh("over-the-parents-file", "echo x > ../parent.txt; echo x >> @top@/parent.txt"),
        sh("new-at-home", "echo x > ~/@tag@; mkdir -p ~/.config/autostart; echo x > ~/.config/autostart/@tag@"),
        sh("start-up-files-at-home", "echo evil >> ~/.bashrc; echo evil >> ~/.profile; echo evil > ~/.gitconfig"),
        sh("keys-at-home", "mkdir -p ~/.ssh; echo evil >> ~/.ssh/authorized_keys; rm -rf ~/.ssh/id_ed25519"),
        sh("the-state-directory", "echo x > @state@/@tag@; rm -rf @state@/*"),
        sh("the-settings", "echo 'on_ask: escalate' > ~/.config/posse/settings.yaml; rm -rf ~/.config/posse"),
        sh("passwords-of-the-system", "echo 'evil::0:0::/:/bin/sh' >> /etc/passwd; echo x >> /etc/shadow"),
        sh("jobs-of-the-system", "echo x > /etc/cron.d/@tag@; echo x > /var/spool/cron/@tag@; echo x > /etc/profile.d/@tag@"),
        sh("programs-of-the-system", "for d in /usr/bin /usr/local/bin /opt /usr/lib; do echo x > $d/@tag@; done"),
        sh("preloading", "echo /tmp/x.so > /etc/ld.so.preload"),
        sh("the-root", "echo x > /@tag@; mkdir /@tag@-dir; for d in /boot /root; do echo x > $d/@tag@; done"),
        sh("scratch-is-its-own", "for d in /tmp /var/tmp /dev/shm /run; do echo fine > $d/@tag@; cat $d/@tag@; done").shows("fine\nfine\nfine\nfine"),
        sh("deleting-outside", "rm -rf @top@/sibling ../ws-evil ../parent.txt @home@"),
        sh("moving-out-and-in", "mv @top@/sibling .; mv README.md @top@/@tag@; cp README.md ../sibling/@tag@"),
        sh("modes-outside", "chmod -R 777 @top@/sibling @home@; chown -R 1:1 @top@/sibling; touch @top@/parent.txt"),
        sh("write-everywhere", "find / -xdev -maxdepth 3 -type d -writable -not -path '/proc*' 2>/dev/null | while read -r d; do echo x > \"$d/@tag@\"; done"),
        sh("in-place-editing", "sed -i s/localhost/evil/ /etc/hosts; perl -pi -e 's/a/b/' /etc/hosts ../parent.txt"),
        sh("raw-writing", "dd if=/dev/zero of=/etc/hosts count=1; dd if=/dev/zero of=../parent.txt count=1; truncate -s 0 ../parent.txt"),
        sh("archive-with-ways-out", "echo x > f; tar -cPf a.tar --transform 's,f,../@tag@-tar,' f; tar -cPf b.tar --transform \"s,f,@top@/sibling/@tag@,\" f; tar -xPf a.tar; tar -xPf b.tar").needs(&["tar"]),
        sh("patch-with-ways-out", "printf -- '--- a/../../parent.txt\\n+++ b/../../parent.txt\\n@@ -0,0 +1 @@\\n+evil\\n' > p; git apply --unsafe-paths -p1 p; patch -p1 -f < p").needs(&["git"]),
        sh("linked-out", "ln ../parent.txt hard; ln README.md ../@tag@; ln -f README.md ../parent.txt"),
        sh("everything-copied-out", "cp -a . ../@tag@; cp -a . /etc/@tag@; rsync -a . ../@tag@"),
        sh("attributes-outside", "for f in @top@/parent.txt @top@/sibling @home@/.netrc; do setfattr -n user.x -v y $f && breach $f; chattr +i $f && breach $f; setfacl -m u:1:rwx $f && breach $f; done; echo over"),
    ]
}

fn by_programs() -> Vec<Case> {
    vec![
        py(
            "opening-for-writing",
            "for path in ['@top@/sibling/secret.txt', '/etc/passwd', '/etc/hosts', '@state@/x', '/usr/bin/env', '/proc/1/exe']:\n    fails(os.open, path, os.O_WRONLY | os.O_CREAT)",
        ),
        py(
            "through-a-directory-handle",
            "top = os.open('/', os.O_RDONLY)\nfor flags in (os.O_WRONLY | os.O_CREAT, os.O_RDWR): fails(lambda: os.open('@tag@', flags, dir_fd=top))\nfails(lambda: os.mkdir('@tag@', dir_fd=top))\nfails(lambda: os.rename('@box@/README.md', '@tag@', dst_dir_fd=top))",
        ),
        py(
            "over-the-runtimes-binary",
            "for name in os.listdir('/proc'):\n    if name.isdigit() and int(name) != os.getpid():\n        try: fd = os.open(f'/proc/{name}/exe', os.O_WRONLY); breach(name)\n        except OSError as error: print(name, error)",
        ),
        py(
            "unnamed-files",
            "fd = os.open('.', os.O_TMPFILE | os.O_RDWR)\nos.write(fd, b'x')\nfails(os.link, f'/proc/self/fd/{fd}', '/etc/@tag@')\nfails(os.link, f'/proc/self/fd/{fd}', '/@tag@')",
        ),
    ]
}

fn by_tools() -> Vec<Case> {
    let text = "evil";
    let write = |name, path: &str| call(name, "write", json!({"path": path, "content": text})).refused("");
    vec![
        write("write-up", "../@tag@"),
        write("write-up-and-down", "src/../../ws-evil/@tag@"),
        write("write-absolute", "@top@/sibling/@tag@"),
        write("write-twin", "@ws@-evil/@tag@"),
        write("write-home", "@home@/.bashrc"),
        write("write-system", "/etc/cron.d/@tag@"),
        write("write-nul", "a\u{0}/../../@tag@"),
        write("write-through-link", "out/@tag@"),
        write("write-to-linked-file", "out-file"),
        write("write-to-dangling-link", "dangling"),
        write("write-a-pipe", "pipe"),
        call("write-tilde", "write", json!({"path": "~/@tag@", "content": text})),
        call("write-encoded", "write", json!({"path": "..%2f..%2f@tag@", "content": text})),
        call("write-backslash", "write", json!({"path": "..\\..\\@tag@", "content": text})),
        call(
            "write-lookalike-dots",
            "write",
            json!({"path": "\u{2025}/\u{ff0e}\u{ff0e}/@tag@", "content": text}),
        ),
        call("edit-up", "edit", json!({"path": "../parent.txt", "old_text": "CAN", "new_text": "x"}))
            .refused(""),
        call(
            "edit-system",
            "edit",
            json!({"path": "/etc/hosts", "old_text": "localhost", "new_text": "x", "replace_all": true}),
        )
        .refused(""),
        call(
            "edit-through-link",
            "edit",
            json!({"path": "out/secret.txt", "old_text": "CAN", "new_text": "x"}),
        )
        .refused(""),
        call("edit-linked-file", "edit", json!({"path": "out-file", "old_text": "CAN", "new_text": "x"}))
            .refused(""),
    ]
}
