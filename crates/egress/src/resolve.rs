//! Resolves host names to addresses.

use std::io;
use std::net::IpAddr;

use futures::future::BoxFuture;

/// Resolves names. Called once for each target. Exactly the returned addresses are checked and connected to.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of a name, the best first.
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The machine's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
