//! `posse models`.

use std::fmt::Write;

use posse::api::{KnownModel, ModelList, ModelProvider};
use posse_setup::model_list;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note, output_width};
use crate::server;
use crate::table::{Cell, Column, TableForm, plain, table};
use crate::term;
use crate::text::count;

/// List model providers, models with their prices, and short names
///
/// Without --all, only providers that can be used are listed. A provider may have more models than those with a known
/// price: name any of them as provider/model.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// Only models whose name or short name matches this text
    text: Option<String>,
    /// Also list providers without a key, and their models
    #[arg(long, short)]
    all: bool,
    /// Print one JSON object with everything
    #[arg(long)]
    json: bool,
}

/// Lists models.
pub(crate) fn models(args: &ModelsArgs, context: &Context) -> Result<Exit, CliError> {
    let list = match context.server() {
        None => model_list::list(context)?,
        Some(server) => server::fetch(server, "/api/v1/models", &[])?,
    };
    let mut output = Output::new();
    let form = TableForm { width: output_width(), is_coloured: false };
    if args.json {
        output.json(&list)?;
        return Ok(Exit::DONE);
    }
    match &args.text {
        Some(text) => {
            let found = priced(&list, |model| is_meant(model, text, &list), form);
            if found.is_empty() {
                return Err(CliError::usage(format!("no model with a known price has `{text}` in its name"))
                    .hint("`posse models --all` lists them; others can be named as provider/model"));
            }
            output.text(&found)?;
        }
        None => output.text(&page(&list, args.all, form))?,
    }
    output.flush()?;
    if args.text.is_none() && !args.all {
        let without = list.providers.iter().filter(|provider| !provider.usable).count();
        note(&format!(
            "{without} more providers have no key or no base URL; `posse models --all` lists them"
        ));
    }
    Ok(Exit::DONE)
}

fn is_meant(model: &KnownModel, text: &str, list: &ModelList) -> bool {
    let is_alias = |name: &str| list.aliases.iter().any(|alias| alias.name == text && alias.model == name);
    model.name.contains(text) || is_alias(&model.name)
}

fn page(list: &ModelList, all: bool, form: TableForm) -> String {
    let row = |provider: &ModelProvider| {
        let default = provider.default_model.as_deref().unwrap_or("-");
        [plain(term::line(&provider.name)), plain(key(provider)), plain(term::line(default))]
    };
    let shown = list.providers.iter().filter(|provider| all || provider.usable);
    let rows: Vec<[Cell; 3]> = shown.map(row).collect();
    let mut page = table(PROVIDER_COLUMNS, &rows, form).concat();
    let is_usable = |model: &KnownModel| {
        let name = model.name.split('/').next().unwrap_or_default();
        all || list.providers.iter().any(|provider| provider.name == name && provider.usable)
    };
    let models = priced(list, is_usable, form);
    if !models.is_empty() {
        let _ = write!(page, "\n{models}");
    }
    let rows: Vec<[Cell; 2]> = list
        .aliases
        .iter()
        .map(|alias| [plain(term::line(&alias.name)), plain(term::line(&alias.model))])
        .collect();
    let _ = write!(page, "\n{}", table(ALIAS_COLUMNS, &rows, form).concat());
    page
}

/// Where the key of a provider comes from, or what is missing.
fn key(provider: &ModelProvider) -> String {
    match (&provider.key, provider.usable) {
        (Some(origin), true) => term::line(origin),
        (None, true) => "not needed".to_owned(),
        (Some(origin), false) => format!("{} (cannot be used)", term::line(origin)),
        (None, false) => "missing".to_owned(),
    }
}

/// The models that are wanted, with their prices; empty if there are none.
fn priced(list: &ModelList, wanted: impl Fn(&KnownModel) -> bool, form: TableForm) -> String {
    let models: Vec<&KnownModel> = list.models.iter().filter(|model| wanted(model)).collect();
    if models.is_empty() {
        return String::new();
    }
    let row = |model: &&KnownModel| {
        let context = model.context_tokens.map_or_else(|| "-".to_owned(), count);
        [
            plain(term::line(&model.name)),
            plain(format!("${}", model.input_usd)),
            plain(format!("${}", model.output_usd)),
            plain(context),
        ]
    };
    let rows: Vec<[Cell; 4]> = models.iter().map(row).collect();
    let head = format!("MODEL (dollars for 1M tokens, {})", list.prices_taken);
    let columns = [
        Column::left(&head, 44).cut_to(24),
        Column::right("IN", 8),
        Column::right("OUT", 8),
        Column::right("CONTEXT", 8).goes(1),
    ];
    table(columns, &rows, form).concat()
}

const PROVIDER_COLUMNS: [Column<'static>; 3] = [
    Column::left("PROVIDER", 20),
    Column::left("KEY", 28).cut_to(16),
    Column::left("DEFAULT MODEL", 13).cut_to(16),
];
const ALIAS_COLUMNS: [Column<'static>; 2] =
    [Column::left("SHORT NAME", 20), Column::left("MEANS", 5).cut_to(16)];
