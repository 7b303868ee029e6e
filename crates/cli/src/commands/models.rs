//! `posse models`.

use std::fmt::Write;

use posse::api::{KnownModel, ModelList, ModelProvider};
use posse_setup::model_list;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note};
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
    let list = model_list::list(context)?;
    let mut output = Output::new();
    if args.json {
        output.json(&list)?;
        return Ok(Exit::DONE);
    }
    match &args.text {
        Some(text) => {
            let found = table(&list, |model| is_meant(model, text, &list));
            if found.is_empty() {
                return Err(CliError::usage(format!("no model with a known price has `{text}` in its name"))
                    .hint("`posse models --all` lists them; others can be named as provider/model"));
            }
            output.text(&found)?;
        }
        None => output.text(&page(&list, args.all))?,
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

fn page(list: &ModelList, all: bool) -> String {
    let mut page = format!("{:20}  {:28}  DEFAULT MODEL\n", "PROVIDER", "KEY");
    for provider in list.providers.iter().filter(|provider| all || provider.usable) {
        let default = provider.default_model.as_deref().unwrap_or("-");
        let _ = writeln!(page, "{:20}  {:28}  {default}", term::line(&provider.name), key(provider));
    }
    let is_usable = |model: &KnownModel| {
        let name = model.name.split('/').next().unwrap_or_default();
        all || list.providers.iter().any(|provider| provider.name == name && provider.usable)
    };
    let models = table(list, is_usable);
    if !models.is_empty() {
        let _ = write!(page, "\n{models}");
    }
    let _ = writeln!(page, "\n{:20}  MEANS", "SHORT NAME");
    for alias in &list.aliases {
        let _ = writeln!(page, "{:20}  {}", term::line(&alias.name), term::line(&alias.model));
    }
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
fn table(list: &ModelList, wanted: impl Fn(&KnownModel) -> bool) -> String {
    let models: Vec<&KnownModel> = list.models.iter().filter(|model| wanted(model)).collect();
    if models.is_empty() {
        return String::new();
    }
    let mut table = format!(
        "{:44}  {:>8}  {:>8}  {:>8}\n",
        format!("MODEL (dollars for 1M tokens, {})", list.prices_taken),
        "IN",
        "OUT",
        "CONTEXT"
    );
    for model in models {
        let context = model.context_tokens.map_or_else(|| "-".to_owned(), count);
        let _ = writeln!(
            table,
            "{:44}  {:>8}  {:>8}  {context:>8}",
            term::line(&model.name),
            format!("${}", model.input_usd),
            format!("${}", model.output_usd)
        );
    }
    table
}
