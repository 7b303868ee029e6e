//! Conformance checks of the mailbox: commands for the lease holder of a run.

use futures::future::join_all;
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::permission::Answer;
use posse_engine::ports::{Basis, Commit, MAILBOX_MAX, MailCommand, StoreError};

use super::World;
use super::fixture::{create, empty, key, next};

/// Commands from several processes are numbered. A commit removes the commands that it takes, and later commands stay.
pub async fn commands_are_taken_once_and_in_order(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    let agent = key.run.root();
    let commands: Vec<_> = (0..20)
        .map(|number| MailCommand::Cancel {
            agent: agent.child(1 + number),
            reason: "why".to_owned(),
            kill: true,
        })
        .chain([
            MailCommand::Send { agent: agent.clone(), text: "höre\u{0}".to_owned() },
            answer(&agent, Answer::Always),
            answer(&agent, Answer::Deny { reason: Some("nein\n".to_owned()) }),
        ])
        .collect();
    let posters = [&store, &other].into_iter().cycle();
    let mut ids = Vec::new();
    for (command, poster) in commands.iter().zip(posters) {
        ids.push(poster.post(&key, command.clone()).await.unwrap());
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "numbers do not grow: {ids:?}");
    let mail = store.mail(&key).await.unwrap();
    assert_eq!(mail, other.mail(&key).await.unwrap());
    let waiting: Vec<_> = mail.iter().map(|mail| (mail.id, mail.command.clone())).collect();
    assert_eq!(waiting, ids.iter().copied().zip(commands).collect::<Vec<_>>());
    let taken = ids[9];
    store.commit(Commit { mail_taken: Some(taken), ..next(&key, 1, 1, 1) }).await.unwrap();
    let left: Vec<u64> = store.mail(&key).await.unwrap().iter().map(|mail| mail.id).collect();
    assert_eq!(left, ids[10..]);
    let all = Basis::Held { head: 2, epoch: 1 };
    store.commit(Commit { mail_taken: ids.last().copied(), ..empty(&key, all) }).await.unwrap();
    assert!(store.mail(&key).await.unwrap().is_empty());
    let later = other.post(&key, MailCommand::Send { agent, text: String::new() }).await.unwrap();
    assert!(later > ids[22], "a number was used twice");
}

fn answer(agent: &AgentId, answer: Answer) -> MailCommand {
    let (call_id, approval) = ("call_1".to_owned(), Hash::of(b"what was asked"));
    MailCommand::Answer { agent: agent.clone(), call_id, approval, answer }
}

/// The mailbox of a run that takes no commands cannot grow without limit.
pub async fn a_mailbox_has_a_limit(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    create(&*store, &key).await;
    let command = MailCommand::Send { agent: key.run.root(), text: "again".to_owned() };
    let posts = join_all((0..=MAILBOX_MAX).map(|_| store.post(&key, command.clone()))).await;
    assert_eq!(posts.iter().filter(|post| post.is_ok()).count(), MAILBOX_MAX as usize);
    assert_eq!(posts.last(), Some(&Err(StoreError::MailboxFull(key.run.clone()))));
    store.commit(Commit { mail_taken: Some(1), ..next(&key, 1, 1, 1) }).await.unwrap();
    store.post(&key, command).await.expect("room for one");
}

/// Commands stay in the mailbox if the commit that takes them fails.
pub async fn a_failed_commit_takes_no_mail(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    create(&*store, &key).await;
    let id =
        store.post(&key, MailCommand::Send { agent: key.run.root(), text: "x".to_owned() }).await.unwrap();
    store.commit(Commit { mail_taken: Some(id), ..next(&key, 7, 1, 1) }).await.expect_err("a stale head");
    assert_eq!(store.mail(&key).await.unwrap().len(), 1);
}
