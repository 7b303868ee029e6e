//! Reports which providers are usable, and what their models cost.

use posse::api::CheckStatus as Status;
use posse::{Provider, ProviderError, prices_taken};

use super::{MachineFinding, MachineRemedy, MachineWords, hint, passed, short};
use crate::environment::Environment;
use crate::settings::Settings;

/// The usable providers, with the origin of each key. Never a key: it would end up in a bug report.
pub(super) fn providers(
    settings: &Settings,
    environment: &Environment,
    words: &dyn MachineWords,
) -> MachineFinding {
    let providers = settings.providers.providers(&environment.variables);
    let (mut ready, mut wrong, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for name in providers.names() {
        let is_local = providers.is_local(name);
        match (providers.key_origin(name), providers.endpoint(name)) {
            (Err(error), _) | (_, Err(error @ ProviderError::BadBaseUrl { .. })) => {
                wrong.push(error.to_string());
            }
            (Ok(Some(origin)), Ok(endpoint)) => {
                ready.push(format!("{name} ({origin}, {})", endpoint.base_url));
            }
            (Ok(None), Ok(endpoint)) if !is_local => {
                ready.push(format!("{name} (no key, {})", endpoint.base_url));
            }
            // A provider that only the settings name is meant to be used.
            (_, Err(error @ (ProviderError::NoBaseUrl { .. } | ProviderError::NoKey { .. })))
                if Provider::find(name).is_none() =>
            {
                wrong.push(error.to_string());
            }
            // Providers of one company take the same key.
            (_, Err(ProviderError::NoKey { variables, .. })) if !absent.contains(&variables) => {
                absent.push(variables);
            }
            _ => {}
        }
    }
    let is_empty =
        |name: &str| environment.variables.iter().any(|(own, value)| own == name && value.trim().is_empty());
    for name in absent.iter().flat_map(|names| names.split(" or ")).filter(|name| is_empty(name)) {
        wrong.push(format!("{name} is set, but empty"));
    }
    let first = providers.first_ready().map(|(_, model)| format!("; {}", words.default_model(&model)));
    let first = first.unwrap_or_default();
    let value = if ready.is_empty() {
        format!("no key is set ({})", absent.join(", "))
    } else {
        format!("{}{first}", ready.join(", "))
    };
    match (wrong.is_empty(), ready.is_empty()) {
        (false, _) => short("model providers", Status::Note, value, hint(wrong.join("; "))),
        (true, true) => short("model providers", Status::Note, value, MachineRemedy::SetKey),
        (true, false) => passed("model providers", value),
    }
}

/// The age of the prices that costs are computed with.
pub(super) fn prices(settings: &Settings, environment: &Environment) -> MachineFinding {
    let providers = settings.providers.providers(&environment.variables);
    match settings.providers.prices(&providers) {
        Ok(own) if own.is_empty() => passed("prices", format!("of {}", prices_taken())),
        Ok(own) => passed("prices", format!("of {}, and {} of your own", prices_taken(), own.len())),
        Err(error) => {
            let remedy = hint("write each as provider/model in the settings");
            short("prices", Status::Missing, error.message(), remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Words;

    impl MachineWords for Words {
        fn remedy(&self, remedy: &MachineRemedy) -> String {
            format!("{remedy:?}")
        }

        fn default_model(&self, model: &str) -> String {
            format!("else {model}")
        }
    }

    fn found(variables: &[(&str, &str)]) -> MachineFinding {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let environment = Environment::new("/nowhere".into(), variables.collect::<Vec<_>>());
        providers(&Settings::default(), &environment, &Words)
    }

    #[test]
    fn variables_that_two_providers_share_are_listed_once() {
        let none = found(&[]);
        assert_eq!(none.value.matches("AWS_BEARER_TOKEN_BEDROCK").count(), 1, "{}", none.value);
        assert_eq!((none.status, none.remedy), (Status::Note, Some(MachineRemedy::SetKey)));
    }

    #[test]
    fn the_model_of_a_run_that_names_none_has_the_words_of_the_front_end() {
        let one = found(&[("ANTHROPIC_API_KEY", "sk-canary")]);
        assert_eq!(one.status, Status::Ok);
        assert!(one.value.contains("; else anthropic/") && !one.value.contains("canary"), "{}", one.value);
    }
}
