//! Links, magic links, and ways around names.

use serde_json::json;

use super::case::{Case, call, py, sh};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        sh("link-to-a-neighbour", "ln -s ../sibling l; echo x > l/@tag@; cat l/secret.txt; rm -rf l/*"),
        sh("link-to-a-file", "ln -s ../parent.txt l2; echo x > l2; cat l2"),
        sh("link-to-home", "ln -s @home@ l3; cat l3/.netrc; echo x > l3/.bashrc; rm -rf l3/.ssh"),
        sh(
            "chain-of-links",
            "ln -s /proc/self/root c1; ln -s c1/tmp c2; ln -s c2/.. c3; cat c3@top@/parent.txt; echo x > c3/@tag@",
        ),
        sh("planted-links", "echo x > out/@tag@; echo x > out-file; echo x > dangling; rm -rf out/*"),
        sh(
            "hard-links-in",
            "for f in ../parent.txt ../sibling/secret.txt @home@/.netrc /etc/passwd /etc/shadow; do ln $f h && breach $f; done",
        ),
        sh("hard-links-of-links", "ln -L key h2 && breach; ln -P key h3; cat h3; cp -L key k; cat k"),
        sh(
            "roots-of-processes",
            "for p in self 1 $$ $PPID thread-self; do cat /proc/$p/root@top@/parent.txt; echo x > /proc/$p/root/@tag@; done",
        ),
        sh(
            "directories-of-processes",
            "for p in self 1 $PPID; do cat /proc/$p/cwd/../parent.txt; echo x > /proc/$p/cwd/../@tag@; done",
        ),
        sh(
            "descriptors-as-directories",
            "exec 7< .; cat /proc/self/fd/7/../parent.txt; echo x > /proc/self/fd/7/../@tag@; cat /dev/fd/7/../sibling/secret.txt",
        ),
        sh(
            "inherited-descriptors",
            "for fd in /proc/self/fd/*; do case ${fd##*/} in 0|1|2|255) ;; *) [ -e $fd ] && ls -l $fd && breach $fd;; esac; done; ls /proc/$PPID/fd",
        ),
        sh(
            "up-and-up",
            "cat ../../../../../../../..@top@/parent.txt; cd ..; cd ..; cat .@top@/parent.txt; cd -P ../../..; ls",
        ),
        sh(
            "workspace-from-outside",
            "cd /; mv @ws@ @ws@-moved && breach; mv @box@ @box@-moved && breach; rmdir @box@ && breach; rmdir @ws@; rm -f @ws@; mv @top@ /tmp/x; mv @home@ /tmp/y; ls /tmp",
        ),
        sh("task-directories", "ls /proc/*/task/*/cwd/..; cat /proc/*/task/*/root@home@/.netrc"),
        sh(
            "mounts-shown",
            "cat /proc/self/mountinfo | grep -F '@home@/.ssh' && breach; cat /proc/self/mounts > /dev/null; ls /.old && breach old",
        ),
        sh(
            "swapping-in-a-loop",
            "mkdir d; ln -s ../sibling e; for i in {1..300}; do mv d t; mv e d; mv t e; echo x > d/@tag@; done 2>/dev/null; cat d/secret.txt e/secret.txt",
        ),
        py(
            "beneath-is-not-asked-for",
            "fd = os.open('.', os.O_PATH)\nfails(os.open, f'/proc/self/fd/{fd}/../parent.txt', os.O_RDONLY)\nfails(lambda: os.open('../parent.txt', os.O_RDONLY, dir_fd=fd))\nfails(lambda: os.open('../../parent.txt', os.O_RDONLY, dir_fd=os.open('src', os.O_PATH)))",
        ),
        py(
            "exchanged-names",
            "os.mkdir('ex')\nos.symlink('../sibling', 'exl')\nfor i in range(200): libc.syscall(316, -100, b'ex', -100, b'exl', 2)\nfails(open, 'ex/secret.txt')\nfails(open, 'exl/secret.txt')",
        ),
        py(
            "very-long-names",
            "for i in range(300):\n    os.makedirs('n' * 200, exist_ok=True); os.chdir('n' * 200)\nfails(open, '../' * 1300 + '@top@/parent.txt'.lstrip('/'))",
        ),
        // No program can keep such a deep tree.
        sh("very-long-names-are-removed", "rm -rf nnn*; ls -d nnn* && breach; echo over").shows("over"),
        call("tool-link-chain", "read", json!({"path": "c3@top@/parent.txt"})).refused(""),
        call("tool-linked-root", "read", json!({"path": "c1/etc/hostname"})).refused(""),
        call("tool-new-link", "write", json!({"path": "l/@tag@-tool", "content": "x"})).refused(""),
        call("tool-new-linked-file", "write", json!({"path": "l2", "content": "x"})).refused(""),
        call("tool-workdir-link", "bash", json!({"command": "pwd", "workdir": "l"})).refused(""),
    ]
}
