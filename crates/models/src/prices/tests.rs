//! The table is complete, and models outside of it have no price.

use super::*;
use crate::provider::Provider;

fn table() -> Table {
    serde_saphyr::from_str(TABLE).expect("the table")
}

#[test]
fn every_price_is_positive_and_every_model_has_a_provider() {
    let table = table();
    assert_eq!(table.currency, "USD");
    let date: Vec<usize> = table.taken.split('-').map(str::len).collect();
    assert_eq!(date, [4, 2, 2], "{}", table.taken);
    for (name, sheet) in &table.models {
        let provider = name.split_once('/').and_then(|(provider, _)| Provider::find(provider));
        let provider = provider.unwrap_or_else(|| panic!("{name} has no provider"));
        assert!(name.starts_with(provider.name) && !provider.is_local, "{name}");
        let said = [sheet.cache_read, sheet.cache_write, sheet.reasoning];
        let prices = said.into_iter().flatten().chain([sheet.input, sheet.output]);
        assert!(prices.into_iter().all(|price| price.micros() > 0), "{name}");
        assert!(sheet.cache_read.is_none_or(|cached| cached <= sheet.input), "{name}");
        assert!(sheet.cache_write.is_none_or(|written| written >= sheet.input), "{name}");
        assert!(sheet.output >= sheet.input && sheet.max_output < sheet.context, "{name}");
    }
}

#[test]
fn every_first_party_family_is_covered() {
    for family in ["claude-", "gpt-", "o3", "o4", "gemini-", "deepseek-", "mistral-", "grok-"] {
        let is_known = table()
            .models
            .keys()
            .any(|name| name.split_once('/').is_some_and(|(_, m)| m.starts_with(family)));
        assert!(is_known, "{family}");
    }
}

#[test]
fn a_model_that_is_resold_costs_what_its_maker_asks() {
    let price = |provider, model| Prices::default().look_up(provider, model, false).price;
    let resold = price("openrouter", "anthropic/claude-sonnet-5.5");
    assert!(resold.is_some());
    assert_eq!(resold, price("anthropic", "claude-sonnet-5-5"));
}

#[test]
fn a_cost_has_all_its_parts() {
    let price = Prices::default().look_up("anthropic", "claude-sonnet-5", false).price.expect("a price");
    assert_eq!(
        (price.input, price.output, price.cached, price.cache_write),
        (2_000_000, 10_000_000, 200_000, 2_500_000)
    );
    assert_eq!(price.reasoning, price.output, "what is not said costs what the rest costs");
    let usage = posse_domain::budget::Usage {
        input_tokens: 1_000_000,
        output_tokens: 100_000,
        cached_tokens: 500_000,
        cache_write_tokens: 100_000,
        ..posse_domain::budget::Usage::ZERO
    };
    assert_eq!(price.cost(&usage), 800_000 + 100_000 + 250_000 + 1_000_000);
}

#[test]
fn dated_models_cost_what_their_family_costs() {
    for (dated, family) in [
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
    ] {
        assert_eq!(undated(dated), family);
    }
    for whole in
        ["gpt-5", "claude-opus-4-5", "mistral-large-2512", "o3", "x-1-2-3", "grok-4.20-0309-reasoning"]
    {
        assert_eq!(undated(whole), whole);
    }
    let dated = Prices::default().look_up("anthropic", "claude-haiku-4-5-20251001", false);
    assert_eq!(dated.price, Prices::default().look_up("anthropic", "claude-haiku-4-5", false).price);
}

#[test]
fn an_unknown_price_is_none_and_a_local_model_is_free() {
    let prices = Prices::default();
    assert_eq!(prices.look_up("openrouter", "anthropic/claude-opus-5", false).price, None);
    assert_eq!(prices.look_up("anthropic", "claude-opus-99", false).price, None);
    assert_eq!(prices.look_up("ollama", "qwen3:8b", true).price, Some(Price::plain(0, 0)));
    assert_eq!(prices.look_up("ollama", "qwen3:8b", true).context_tokens, LOCAL_CONTEXT_TOKENS);
}

#[test]
fn the_persons_prices_go_before_the_tables() {
    let usd = |dollars| Usd::try_from(dollars).expect("dollars");
    let tag = PriceTag {
        input: usd(1.0),
        output: usd(2.0),
        cache_read: None,
        cache_write: None,
        reasoning: Some(usd(3.0)),
    };
    let names = ["anthropic/claude-opus-5", "lab/x", "ollama/y"];
    let prices = Prices::new(names.map(|name| (name.to_owned(), tag)));
    let expected = Price { reasoning: 3_000_000, ..Price::plain(1_000_000, 2_000_000) };
    assert_eq!(prices.look_up("anthropic", "claude-opus-5", false).price, Some(expected));
    assert_eq!(prices.look_up("lab", "x", false).price, Some(expected));
    assert_eq!(prices.look_up("ollama", "y", true).price, Some(expected), "power costs something too");
    assert_eq!(
        prices.look_up("anthropic", "claude-opus-5", false).context_tokens,
        1_000_000,
        "the rest stays"
    );
}
