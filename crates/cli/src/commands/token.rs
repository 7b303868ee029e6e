//! `posse token`: the tokens of a server.

use posse::api::{self, TokenRight};
use posse_setup::age::Age;
use posse_setup::server::access::LOCAL_TENANT;
use posse_setup::server::{AuditEntry, AuditLog, NewToken, ServerAccess, StoredToken};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note, output_width};
use crate::table::{Cell, Column, TableForm, plain, table};
use crate::term;
use crate::text::{local_time, now_ms};

/// The token of the audit log for what is done with this verb.
const COMMAND: &str = "the command";

/// Make, list and revoke tokens for clients of `posse serve`
///
/// Of a token only the hash is stored: it is shown once, when it is made. A server accepts a new token at once, and refuses
/// a revoked one from its next request on.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    verb: TokenVerb,
}

#[derive(Debug, clap::Subcommand)]
enum TokenVerb {
    New(NewArgs),
    #[command(visible_alias = "list")]
    Ls(LsArgs),
    Revoke(RevokeArgs),
}

/// Make a token, and print it
#[derive(Debug, clap::Args)]
struct NewArgs {
    /// Its name, of small letters, digits, `-` and `_`
    #[arg(value_name = "NAME")]
    name: String,
    /// What it may do; can be repeated [default: read]
    #[arg(long = "right", value_name = "RIGHT")]
    rights: Vec<RightArg>,
    /// The tenant whose runs it sees. Tenants see nothing of each other
    #[arg(long, value_name = "TENANT", default_value = LOCAL_TENANT)]
    tenant: String,
    /// How long it is valid, such as `90d` or `12h`; 0 for no end
    #[arg(long, value_name = "AGE", default_value = "90d", allow_negative_numbers = true)]
    expires: Age,
}

/// List the tokens
#[derive(Debug, clap::Args)]
struct LsArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Revoke a token
#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum RightArg {
    /// Read runs, definitions, settings and the machine
    Read,
    /// Start runs, send messages, cancel, resume, apply and export
    Run,
    /// Answer the questions of agents, and approve operations in advance
    Answer,
    /// With the tenant `local`: add projects, use every directory of the machine. Read the audit log
    Admin,
}

impl From<RightArg> for TokenRight {
    fn from(right: RightArg) -> Self {
        match right {
            RightArg::Read => Self::Read,
            RightArg::Run => Self::Run,
            RightArg::Answer => Self::Answer,
            RightArg::Admin => Self::Admin,
        }
    }
}

/// Makes, lists or revokes tokens.
pub(crate) fn token(args: &TokenArgs, context: &Context) -> Result<Exit, CliError> {
    match &args.verb {
        TokenVerb::New(args) => make(args, context),
        TokenVerb::Ls(args) => list(args, context),
        TokenVerb::Revoke(args) => revoke(args, context),
    }
}

fn make(args: &NewArgs, context: &Context) -> Result<Exit, CliError> {
    let rights = if args.rights.is_empty() { vec![RightArg::Read] } else { args.rights.clone() };
    let rights: Vec<TokenRight> = rights.into_iter().map(Into::into).collect();
    let words: Vec<&str> = rights.iter().map(|right| right.as_str()).collect();
    let detail = format!("name={} rights={}", args.name, words.join(","));
    let new = NewToken {
        name: args.name.clone(),
        tenant: args.tenant.clone(),
        rights,
        lifetime: Some(args.expires.0).filter(|lifetime| !lifetime.is_zero()),
    };
    let state_dir = context.state_dir()?;
    let text = ServerAccess::make_token(state_dir, new, now_ms())?;
    audit(context, &args.tenant, "newToken", detail)?;
    let mut output = Output::new();
    output.own(&format!("{text}\n"))?;
    output.flush()?;
    note("this token is shown once; clients send it as `Authorization: Bearer TOKEN`");
    Ok(Exit::DONE)
}

fn list(args: &LsArgs, context: &Context) -> Result<Exit, CliError> {
    let access = ServerAccess::load(context.state_dir()?)?;
    let mut output = Output::new();
    if args.json {
        output.json(&api::TokenList { tokens: access.tokens.iter().map(entry).collect() })?;
    } else if access.tokens.is_empty() {
        output.paragraph(
            "there is no token but the one that `posse serve` prints; `posse token new` makes one",
        )?;
    } else {
        let now_ms = now_ms();
        let rows: Vec<_> = access.tokens.iter().map(|token| row(token, now_ms)).collect();
        let form = TableForm { width: output_width(), is_coloured: false };
        for line in table(COLUMNS, &rows, form) {
            output.own(&line)?;
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

const COLUMNS: [Column<'static>; 5] = [
    Column::left("NAME", 14),
    Column::left("TENANT", 10).goes(2),
    Column::left("RIGHTS", 12),
    Column::left("EXPIRES", 19),
    Column::left("MADE AT", 19).goes(1),
];

fn row(token: &StoredToken, now_ms: i64) -> [Cell; 5] {
    let expires = match token.expires_at_ms {
        _ if token.is_expired(now_ms) => "expired".to_owned(),
        Some(expires) => local_time(expires),
        None => "never".to_owned(),
    };
    [
        plain(token.name.clone()),
        plain(token.tenant.clone()),
        plain(words(token).join(", ")),
        plain(expires),
        plain(local_time(token.created_at_ms)),
    ]
}

fn words(token: &StoredToken) -> Vec<&'static str> {
    token.rights.iter().map(|right| right.as_str()).collect()
}

fn entry(token: &StoredToken) -> api::TokenEntry {
    api::TokenEntry {
        name: token.name.clone(),
        tenant: token.tenant.clone(),
        rights: token.rights.clone(),
        created_at: api::timestamp(token.created_at_ms),
        expires_at: token.expires_at_ms.map(api::timestamp),
    }
}

fn revoke(args: &RevokeArgs, context: &Context) -> Result<Exit, CliError> {
    let state_dir = context.state_dir()?;
    let tenant = ServerAccess::load(state_dir)?.tokens.into_iter().find(|token| token.name == args.name);
    if !ServerAccess::revoke_token(state_dir, &args.name)? {
        let name = term::visible_line(&args.name);
        return Err(
            CliError::failed(format!("there is no token `{name}`")).hint("`posse token ls` lists them")
        );
    }
    let tenant = tenant.map_or_else(|| LOCAL_TENANT.to_owned(), |token| token.tenant);
    audit(context, &tenant, "revokeToken", format!("name={}", args.name))?;
    note(&format!("revoked {}", args.name));
    Ok(Exit::DONE)
}

/// Adds what was done to the audit log.
fn audit(context: &Context, tenant: &str, operation: &str, detail: String) -> Result<(), CliError> {
    let entry = AuditEntry {
        id: String::new(),
        at_ms: now_ms(),
        token: COMMAND.to_owned(),
        tenant: tenant.to_owned(),
        operation: operation.to_owned(),
        run: None,
        detail,
        outcome: Some("done".to_owned()),
    };
    Ok(AuditLog::new(context.state_dir()?).add(&entry)?)
}
