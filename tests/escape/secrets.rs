//! Reading what is not for agents. Each case prints what it finds; the canary is searched everywhere outside.

use serde_json::json;

use super::case::{Case, call, py, sh};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = by_commands();
    cases.extend(by_tools());
    cases
}

fn by_commands() -> Vec<Case> {
    vec![
        sh("keys", "cat ~/.ssh/* @home@/.ssh/id_ed25519; ssh-add -L; ls -laR ~"),
        sh("cloud-credentials", "cat ~/.aws/credentials ~/.kube/config ~/.docker/config.json ~/.config/gh/hosts.yml"),
        sh("registry-credentials", "cat ~/.npmrc ~/.cargo/credentials.toml ~/.netrc ~/.git-credentials ~/.m2/settings.xml"),
        sh("credentials-beside-toolchains", "cat ~/.local/share/uv/credentials/*; find ~/.local ~/.cargo -type f -exec cat {} +"),
        sh("history", "cat ~/.bash_history; history -r ~/.bash_history; history; fc -l"),
        sh("private-keys", "cat ~/.gnupg/private-keys-v1.d/*; gpg --export-secret-keys --batch"),
        sh("documents", "cat ~/Documents/* ~/project/*; ls @home@"),
        sh("the-environment", "env; set; export -p; declare -p; compgen -v"),
        sh("the-environment-of-processes", "cat /proc/self/environ /proc/1/environ /proc/[0-9]*/environ | tr '\\0' '\\n'"),
        sh("named-variables", "echo $ANTHROPIC_API_KEY $OPENAI_API_KEY $CANARY_SECRET $GH_TOKEN $SSH_AUTH_SOCK; printenv CANARY_SECRET && breach"),
        sh("other-runs", "ls -laR @state@; cat @state@/*; find / -name '*.db' -newer /etc/hostname -not -path '/proc/*' 2>/dev/null | head | xargs -r cat"),
        sh("settings", "cat ~/.config/posse/settings.yaml @home@/.config/posse/*"),
        sh("neighbours", "cat ../parent.txt @top@/sibling/secret.txt @ws@-evil/secret.txt; ls -la .. @top@"),
        sh("through-planted-links", "cat out/secret.txt out-file key; ls out/"),
        sh("passwords", "for f in shadow gshadow sudoers ssl/private; do cat /etc/$f | grep . && breach $f; done; echo over"),
        sh("the-superusers-home", "ls -A ~root | grep . && breach; cat ~root/.ssh/* ~root/.aws/* ~root/.bash_history"),
        sh("search-everywhere", "grep -rasI --exclude-dir=proc --exclude-dir=usr 'CANA[R]Y-' / | head -50"),
        sh("the-runtimes-files", "cat /proc/1/cmdline /proc/1/maps; cat /proc/1/fd/* ; ls -l /proc/1/fd /proc/1/cwd /proc/1/root"),
        sh("kernel-keys", "cat /proc/keys; keyctl show; keyctl list @u"),
        sh("git-as-a-reader", "git config --global -l; git config --system -l; git -C ~ status; git diff --no-index /dev/null ~/.netrc; git credential fill <<< 'host=x'").needs(&["git"]),
        sh("curl-as-a-reader", "curl -s file://@home@/.netrc file:///@top@/parent.txt file://@home@/.ssh/id_ed25519; curl -sn http://localhost").needs(&["curl"]),
        sh("kept-outputs-of-others", "ls -laR /run/output 2>&1; cat /run/output/../../state/* @state@/runs/*/output/*/*"),
        sh("sockets-of-agents", "ls -la $SSH_AUTH_SOCK /run/user /run/docker.sock /var/run/docker.sock /run/dbus; docker ps && breach docker"),
        sh("core-dumps", "ulimit -c unlimited; (kill -SEGV $BASHPID); ls core* && breach; cat /var/lib/systemd/coredump/*"),
        sh("logs-of-the-system", "dmesg; journalctl -n 5; cat /var/log/* | grep . && breach; ls /var/log && breach; echo over"),
        py("a-search-by-program", "import pathlib\nfor top in ['@home@', '/root', '/home', '/run', '/tmp', '/var', '/mnt', '/srv', '/media']:\n    for path in pathlib.Path(top).rglob('*'):\n        try: print(path, path.read_bytes()[:200])\n        except (OSError, PermissionError): pass"),
    ]
}

fn by_tools() -> Vec<Case> {
    let read = |name, path: &str| call(name, "read", json!({"path": path})).refused("");
    vec![
        read("read-up", "../parent.txt"),
        read("read-absolute", "@home@/.ssh/id_ed25519"),
        read("read-twin", "@ws@-evil/secret.txt"),
        read("read-up-and-down", "src/../../sibling/secret.txt"),
        read("read-through-link", "out/secret.txt"),
        read("read-linked-file", "key"),
        read("read-proc", "/proc/self/environ"),
        read("read-proc-of-workspace", "../../../../../proc/self/environ"),
        read("read-settings", "../home/.config/posse/settings.yaml"),
        read("read-a-kept-output-by-path", "@output/../../../../parent.txt"),
        read("read-a-kept-output-of-others", "@output/x/../y.txt"),
        read("read-a-pipe", "pipe"),
        read("read-a-device", "zero"),
        read("read-a-socket", "in.sock"),
        read("read-a-loop", "loop"),
        read("read-a-directory", "src"),
        read("read-a-huge-file", "sparse"),
        read("read-nul", "README.md\u{0}.txt"),
        call("list-up", "list", json!({"path": ".."})).refused(""),
        call("list-root", "list", json!({"path": "/"})).refused(""),
        call("list-through-link", "list", json!({"path": "out"})).refused(""),
        call("glob-up", "glob", json!({"pattern": "../**/*"})),
        call("glob-absolute", "glob", json!({"pattern": "@home@/**"})),
        call("glob-in", "glob", json!({"pattern": "**/*", "path": "../home"})).refused(""),
        call("grep-up", "grep", json!({"pattern": "CANA[R]Y", "path": ".."})).refused(""),
        call("grep-absolute", "grep", json!({"pattern": "CANA[R]Y", "path": "@home@"})).refused(""),
        call("grep-through-links", "grep", json!({"pattern": "CANA[R]Y"})),
        call("grep-in-link", "grep", json!({"pattern": "CANA[R]Y", "path": "out"})).refused(""),
    ]
}
