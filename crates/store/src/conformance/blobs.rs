//! Conformance checks of blobs: long texts that are stored by content hash.

use posse_domain::hash::Hash;
use posse_engine::ports::{Commit, RunKey, StoreError, TenantId};

use super::World;
use super::fixture::{blob, create, first, key, next};

/// When a commit returns, every process can read its blobs. Storing a blob again changes nothing.
pub async fn blobs_come_with_their_commit_and_twice_is_once(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    let content = blob(b"the content".to_vec());
    let tenant = &key.tenant;
    assert_eq!(store.get_blob(tenant, &content.hash).await, Err(StoreError::UnknownBlob(content.hash)));
    for head in 1..3 {
        let blobs = vec![content.clone(), content.clone()];
        store.commit(Commit { blobs, ..next(&key, head, 1, 1) }).await.unwrap();
        for store in [&store, &other] {
            assert_eq!(store.get_blob(tenant, &content.hash).await.as_deref(), Ok(&*content.bytes));
        }
    }
}

/// Blobs from empty to larger than a store would keep in one row are returned unchanged.
pub async fn blobs_of_every_size_come_back(world: &dyn World) {
    let (store, key) = (world.open(), key(1));
    create(&*store, &key).await;
    let sizes = [0, 1, 4_096, 262_144, 262_145, 3_000_000];
    let blobs: Vec<_> = sizes.map(|size| blob((0..=250).cycle().take(size).collect())).to_vec();
    // A commit without long blobs must not overtake an earlier commit with long blobs.
    let flight = [
        store.commit(Commit { blobs: blobs.clone(), ..next(&key, 1, 1, 1) }),
        store.commit(next(&key, 2, 1, 1)),
        store.commit(Commit { blobs: blobs.clone(), ..next(&key, 3, 1, 1) }),
    ];
    for committed in futures::future::join_all(flight).await {
        committed.unwrap();
    }
    for blob in blobs {
        assert_eq!(store.get_blob(&key.tenant, &blob.hash).await.as_deref(), Ok(&*blob.bytes));
    }
}

/// Knowing a hash is not enough to read another tenant's text.
pub async fn blobs_of_another_tenant_are_invisible(world: &dyn World) {
    let store = world.open();
    let theirs = RunKey { tenant: TenantId::new("theirs"), ..key(1) };
    for content in [blob(b"secret".to_vec()), blob(vec![7; 500_000])] {
        let key = RunKey {
            run: posse_domain::id::RunId::from_random(content.bytes.len() as u64),
            ..theirs.clone()
        };
        let hash: Hash = content.hash;
        store.commit(Commit { blobs: vec![content], ..first(&key) }).await.unwrap();
        assert!(store.get_blob(&theirs.tenant, &hash).await.is_ok());
        let ours = TenantId::local();
        assert_eq!(store.get_blob(&ours, &hash).await, Err(StoreError::UnknownBlob(hash)));
    }
}
