//! Waiting for input: no user is present, so each of these ends by itself.

use super::case::{Case, sh};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        sh("cat", "cat; echo over").shows("over"),
        sh("read", "read -r x; read -r -p 'password: ' -s y < /dev/tty; select z in a b; do break; done; echo over").shows("over"),
        sh("python-input", "python3 -c 'input(\"? \")'; python3 -c 'import getpass; getpass.getpass()'; python3; echo over").needs(&["python3"]).shows("over"),
        sh("a-shell", "bash -i -c 'echo hello'; bash; sh; echo over").shows("over"),
        sh("editors", "vi x; vim -u NONE x; nano x; ex x; ed x; echo over").needs(&["vi"]).ends(2_000),
        sh("the-editor", "$EDITOR x; $VISUAL x; git config --global -e; crontab -e; visudo; echo over").shows("over"),
        sh("commit-without-message", "git init -q repo1 && cd repo1 && git -c user.name=a -c user.email=a@b commit --allow-empty; git commit --amend; git rebase -i HEAD; git tag -a v1; echo over").needs(&["git"]).shows("over"),
        sh("pagers-of-git", "git init -q repo2 && cd repo2 && for i in {1..60}; do git -c user.name=a -c user.email=a@b commit -q --allow-empty -m $i; done; git log; git -p log; git help log; echo over").needs(&["git"]).shows("over"),
        sh("pagers", "seq 9999 | less; seq 9999 | more; less README.md; man bash | tail -1; echo over").needs(&["less"]).shows("over"),
        sh("passwords-for-git", "git clone https://user@127.0.0.1:9/x; git push https://127.0.0.1:9/x; echo over").needs(&["git"]).shows("over"),
        sh("passwords-for-shells", "ssh -o ConnectTimeout=2 user@127.0.0.1; ssh-keygen -t ed25519; ssh-keygen -t ed25519 -f k -N ''; ssh-add; scp x y@127.0.0.1:; echo over").needs(&["ssh"]).shows("over"),
        sh("passwords-for-root", "sudo id; sudo -A id; su; su -c id; passwd; chsh; login; echo over").shows("over"),
        sh("questions", "rm -i README.md; cp -i README.md README.md; mv -i README.md README.md; find . -maxdepth 1 -name README.md -ok true {} \\;; xargs -p true <<< x; echo over").shows("over"),
        sh("questions-of-packages", "timeout 5 apt-get install x; timeout 5 pip install --dry-run x; npm login; cargo login; echo over").shows("over"),
        sh("screens", "timeout 3 top -n1; watch -g date & dialog --yesno x 5 20; whiptail --yesno x 5 20; clear; reset; tput cols; stty -a; echo over").ends(15_000),
        sh("making-keys", "gpg --gen-key; gpg -c README.md; openssl genrsa -aes256 -out k2 512; echo over").shows("over"),
        sh("no-terminal", "tty && breach; [ -t 0 ] && breach; [ -t 1 ] && breach; echo x > /dev/tty && breach; echo over").shows("over"),
        sh("fresh-terminals", "script -qc 'echo in a script' /dev/null; python3 -c 'import pty; pty.spawn([\"true\"])'; ls /dev/pts /dev/ptmx; echo over").ends(10_000),
    ]
}
