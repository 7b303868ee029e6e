//! Names that other programs obey: existing ones stay unchanged, missing ones stay missing.

use serde_json::json;

use super::case::{Case, call, sh};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = existing();
    cases.extend(missing());
    cases.extend(by_tools());
    cases
}

fn existing() -> Vec<Case> {
    vec![
        sh("git-config", "printf '[core]\\nfsmonitor = touch /tmp/x\\n' >> .git/config; echo x > .git/config"),
        sh("git-hooks", "printf '#!/bin/sh\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/pre-commit.sample; mkdir .git/hooks2"),
        sh("git-removed", "rm -rf .git; rm -f .git/HEAD; find .git -delete"),
        sh("git-moved", "mv .git g2; mkdir .git3; mv -T .git3 .git; mv .git/hooks h"),
        sh("git-by-git", "git config core.fsmonitor 'touch /tmp/x'; git config core.hooksPath /tmp; git init; git init --separate-git-dir=x .; git worktree add ../@tag@; git remote add o u").needs(&["git"]),
        sh("git-through-a-link", "echo x >> g/config; echo x > g/hooks/evil; ln -s .git/hooks hh; echo x > hh/evil"),
        sh("git-by-hard-link", "ln .git/config cfg && echo evil >> cfg; ln -f README.md .git/config; cp -l .git/HEAD hd && echo x > hd"),
        sh("git-modes", "chmod -R 777 .git; chmod 000 .git; touch -d 1970-01-01 .git/config; setfattr -n user.x -v y .git/config"),
        sh("git-unmounted", "umount .git; umount -l .git; mount -o remount,rw .git; mount --bind . .git"),
        sh("editor-settings", "echo '{\"x\":1}' > .vscode/settings.json; echo '{}' > .vscode/tasks.json; rm -r .vscode; mv .vscode v"),
        sh("servers-replaced", "echo evil > n; mv -f n .mcp.json; cp README.md .mcp.json; rm .mcp.json; ln -sf README.md .mcp.json"),
        sh("servers-in-place", "sed -i 's/{/[/' .mcp.json; truncate -s 0 .mcp.json; dd if=README.md of=.mcp.json conv=notrunc; tee .mcp.json < README.md"),
        sh("ci-in-place", "echo 'on: evil' > .github/workflows/ci.yml; echo x > .github/workflows/evil.yml; rm .github/workflows/*"),
        sh("ci-by-its-parent", "mv .github x; mv .github/workflows w; rm -r .github; mkdir y && mv -T y .github"),
        sh("a-link-replaced", "rm .claude; mkdir .claude; echo '{}' > .claude/settings.json"),
        sh("a-link-changed", "ln -sfn ../sibling .claude; rm .claude; ln -s @home@ .claude"),
    ]
}

fn missing() -> Vec<Case> {
    vec![
        sh("new-direnv", "echo 'touch /tmp/x' > .envrc"),
        sh("new-shell-files", "for f in .bashrc .bash_profile .profile .zshrc; do echo evil > $f; done"),
        sh("new-cargo-config", "mkdir -p .cargo; printf '[build]\\nrustc-wrapper = \"evil\"\\n' > .cargo/config.toml; cp .cargo/config.toml .cargo/config"),
        sh("new-hooks", "mkdir -p .husky; echo evil > .husky/pre-commit; echo '[submodule]' > .gitmodules"),
        sh("new-by-moving", "mkdir t1; echo evil > t1/x; mv t1 .idea; echo evil > t2; mv t2 .npmrc"),
        sh("new-by-moving-the-parent", "mkdir -p t3/workflows; echo evil > t3/workflows/e.yml; mv t3 .gitea; mkdir -p t4/workflows; mv t4 .forgejo"),
        sh("new-by-hard-link", "ln README.md .exrc; ln README.md Jenkinsfile"),
        sh("new-by-archive", "mkdir -p a/.devcontainer; echo evil > a/.devcontainer/devcontainer.json; tar -C a -cf a.tar .devcontainer; tar -xf a.tar"),
        sh("new-as-link-out", "ln -s @home@/.bashrc .gitconfig; ln -s ../sibling .cursor; ln -s @home@/.git-credentials .git-credentials"),
        sh("new-as-link-above-home", "ln -s @home@/.config .config"),
        sh("new-as-link-above-neighbour", "rm -rf .gitea .cargo; ln -s ../sibling .gitea; ln -s ../sibling .cargo"),
        sh("new-as-link-inside", "mkdir -p mine/workflows; rm -rf .forgejo; ln -s mine .forgejo"),
        sh("new-as-pipe-and-socket", "mkfifo .gitlab-ci.yml; mkfifo .posse"),
        sh("new-with-names-taken", "touch .envrc.refused; for i in {2..1100}; do : > .envrc.refused-$i; done; echo evil > .envrc"),
        sh("new-in-a-closed-directory", "mkdir -p .github/actions/x; chmod 000 .github/actions; rm -rf .cargo; mkdir .cargo; echo evil > .cargo/config.toml; chmod 000 .cargo"),
        sh("new-in-a-closed-workspace", "echo evil > .bashrc; chmod 555 ."),
        sh("opened-again", "chmod 755 . .cargo*; ls -la"),
        sh("new-and-held-open", "exec 7> .zshrc; echo evil >&7; (sleep 50 >&7) & disown"),
        sh("new-with-a-git-inside", "git init -q sub; cp -r sub/.git .ssh; mkdir -p .config/git .config/fish; echo evil > .config/git/config").needs(&["git"]),
    ]
}

fn by_tools() -> Vec<Case> {
    let write = |name, path: &str| call(name, "write", json!({"path": path, "content": "evil"})).refused("");
    vec![
        write("write-git-config", ".git/config"),
        write("write-git-hook", ".git/hooks/post-checkout"),
        write("write-git-in-capitals", ".GIT/config"),
        write("write-git-through-link", "g/hooks/evil"),
        write("write-editor-settings", ".vscode/tasks.json"),
        write("write-servers", "./.mcp.json"),
        write("write-servers-in-capitals", ".Mcp.JSON"),
        write("write-direnv", ".envrc"),
        write("write-direnv-deeper", "src/.envrc"),
        write("write-direnv-by-dots", "src/../.envrc"),
        write("write-ci", ".github/workflows/evil.yml"),
        write("write-ci-in-capitals", ".GitHub/Workflows/evil.yml"),
        write("write-through-agent-link", ".claude/settings.json"),
        write("write-folded-letter", ".v\u{17f}code/tasks.json"),
        write("write-own-settings", ".posse/settings.yaml"),
        call(
            "edit-git-config",
            "edit",
            json!({"path": ".git/config", "old_text": "[core]", "new_text": "[evil]"}),
        )
        .refused(""),
        call("edit-servers", "edit", json!({"path": ".mcp.json", "old_text": "{}", "new_text": "[]"}))
            .refused(""),
    ]
}
