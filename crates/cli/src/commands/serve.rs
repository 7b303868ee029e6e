//! `posse serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use posse_protocols::http::{ResumedRuns, ServeError, ServeOptions, Server, TlsFiles};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::browser;
use crate::context::{Context, log_of_server};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note, print_notes};
use crate::runtime;
use crate::signals::Signals;
use crate::term;
use crate::text::plural;

/// Files that a server has open at the same time: its clients, the databases of its tenants and its runs, their processes.
const OPEN_FILES: u64 = 16 * 1024;

/// Serve the page and the HTTP API
///
/// Prints the URL of the page with the token that clients need, and serves until Ctrl-C or SIGTERM: then the runs that it
/// executes stop as they are, and can be resumed. Runs of other processes are shown too. Clients on other machines need
/// --allow-remote and TLS. `/api/openapi.json` describes the API.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 chooses a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7766", value_parser = address)]
    listen: SocketAddr,
    /// Let clients on other machines reach the server, through TLS
    #[arg(long)]
    allow_remote: bool,
    /// A name or an address by which they reach it, without a port; can be repeated
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// The certificate of the server, followed by those that certify it, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A proxy in front of the server speaks TLS
    #[arg(long, conflicts_with = "tls_cert")]
    behind_proxy: bool,
    /// Let the pages of this origin use the API with a token, such as `https://example.org`; can be repeated
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    origins: Vec<String>,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    /// Take over all interrupted runs first
    #[arg(long)]
    resume: bool,
}

impl ServeArgs {
    fn options(&self, context: &Context) -> ServeOptions {
        let whole = |path: &PathBuf| context.environment.cwd.join(path);
        let files = self.tls_cert.as_ref().zip(self.tls_key.as_ref());
        ServeOptions {
            listen: self.listen,
            allow_remote: self.allow_remote,
            tls: files.map(|(cert, key)| TlsFiles { cert: whole(cert), key: whole(key) }),
            behind_proxy: self.behind_proxy,
            hosts: self.hosts.clone(),
            origins: self.origins.clone(),
        }
    }
}

/// An address with a port. `localhost` is the usual loopback address.
fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    numeric.as_deref().unwrap_or(text).parse().map_err(|_| {
        "expected an address and a port, such as `127.0.0.1:7766`, `[::1]:7766` or `localhost:0`".to_owned()
    })
}

/// Serves until a signal arrives.
pub(crate) fn serve(args: &ServeArgs, context: &Context) -> Result<Exit, CliError> {
    log_of_server()?;
    allow_open_files();
    runtime::driving(async {
        let mut signals = Signals::listen()?;
        let server = Server::bind(context, args.options(context)).await?;
        let mut output = Output::new();
        output.own(&format!("{}\n", server.url()))?;
        output.flush()?;
        if args.open {
            open_page(&server.url(), context);
        }
        if args.resume {
            match signals.unless_one_comes(Box::pin(server.resume_interrupted())).await {
                Ok(resumed) => print_resumed(&resumed?),
                Err(ask) => return Ok(ask.exit()),
            }
        }
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let serving = server.serve(async {
            // The sender lives until the signal.
            let _ = stopped.await;
        });
        tokio::pin!(serving);
        tokio::select! {
            _ = serving.as_mut() => return Ok(Exit::DONE),
            _ = signals.next() => {}
        }
        note("stopping; one more signal stops at once");
        let _ = stop.send(());
        tokio::select! {
            open = serving => {
                if !open.is_empty() {
                    let open: Vec<String> = open.iter().map(ToString::to_string).collect();
                    note(&format!("can be resumed: {}", open.join(", ")));
                }
                Ok(Exit::DONE)
            }
            ask = signals.next() => Ok(ask.exit()),
        }
    })
}

/// Lets this process have more open files than the usual 1,024, if the system lets it: each client is one.
fn allow_open_files() {
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    if now.current.is_some_and(|current| current < wanted) {
        // The usual limit is enough for a few clients.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: now.maximum });
    }
}

/// Opens the page in the user's browser. A failure is only reported: the printed URL opens it too.
fn open_page(url: &str, context: &Context) {
    let opened = match context.state_dir() {
        Ok(dir) => browser::open(url, dir, &context.environment.variables).map_err(|error| error.to_string()),
        Err(error) => Err(error.message().to_owned()),
    };
    if let Err(why) = opened {
        note(&format!("warning: no browser was opened: {}; open the URL yourself", term::line(&why)));
    }
}

/// Says which interrupted runs are executed again.
fn print_resumed(resumed: &ResumedRuns) {
    let ResumedRuns { resumed, failed, notes } = resumed;
    print_notes(notes);
    if resumed.is_empty() && failed.is_empty() {
        note("no run was interrupted");
    }
    if !resumed.is_empty() {
        let runs: Vec<String> = resumed.iter().map(ToString::to_string).collect();
        note(&format!("resumed {}: {}", plural(resumed.len() as u64, "run"), runs.join(", ")));
    }
    for (run, why) in failed {
        note(&format!("warning: run {run} was not resumed: {}", term::line(why)));
    }
}

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> Self {
        let message = error.to_string();
        match error {
            ServeError::NotAllowed(_) => CliError::usage(message).hint(
                "listen on 127.0.0.1, and reach it from elsewhere through a tunnel, such as `ssh -L 7766:127.0.0.1:7766 \
                 HOST`; or allow it with --allow-remote, --host, --tls-cert and --tls-key",
            ),
            ServeError::NotEncrypted(_) => CliError::usage(message)
                .hint("name a certificate with --tls-cert and --tls-key, or a proxy that has one with --behind-proxy"),
            ServeError::HostsMissing => {
                CliError::usage(message).hint("name it with --host, such as `--host posse.example.org`")
            }
            ServeError::NoHost(_) => CliError::usage(format!("--host: {message}"))
                .hint("name it without a scheme and a port, such as `posse.example.org`"),
            ServeError::NoOrigin(_) => CliError::usage(format!("--cors-origin: {message}"))
                .hint("write it as browsers send it, without a path, such as `https://example.org`"),
            ServeError::Tls(_) => CliError::usage(message)
                .hint("--tls-cert and --tls-key name PEM files: the certificate with its chain, and its private key"),
            ServeError::Listen { error, .. } => {
                let error = match error.kind() {
                    std::io::ErrorKind::AddrInUse => "another process listens there",
                    std::io::ErrorKind::AddrNotAvailable => "this machine does not have the address",
                    std::io::ErrorKind::PermissionDenied => "you may not listen there",
                    _ => return CliError::failed(message),
                };
                let (address, _) = message.rsplit_once(": ").unwrap_or((&message, ""));
                CliError::failed(format!("{address}: {error}"))
                    .hint("name another address with --listen; `--listen 127.0.0.1:0` chooses a free port")
            }
            ServeError::Open(error) => error.into(),
            ServeError::Token(_) => CliError::failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_and_may_be_named_localhost() {
        for (text, expected) in
            [("localhost:0", "127.0.0.1:0"), ("127.0.0.1:7766", "127.0.0.1:7766"), ("[::1]:80", "[::1]:80")]
        {
            assert_eq!(address(text), Ok(expected.parse().expect("an address")), "{text}");
        }
        for wrong in ["localhost", "localhost:", "localhost:x", ":7766", "example.org:80"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
