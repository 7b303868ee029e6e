//! Which providers can be asked, and what their models cost.

use posse::{ProviderError, prices_taken};

use super::{Row, Status};
use crate::settings::Settings;
use posse_setup::Environment;

/// The providers that can be asked, and where each one's key comes from; never a key: it would end up in somebody's bug
/// report.
pub(super) fn providers(settings: &Settings, environment: &Environment) -> Row {
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
            (_, Err(ProviderError::NoKey { variables, .. })) => absent.push(variables),
            _ => {}
        }
    }
    let first =
        providers.first_ready().map(|(_, model)| format!("; without --model: {model}")).unwrap_or_default();
    let value = if ready.is_empty() {
        format!("no key is set ({})", absent.join(", "))
    } else {
        format!("{}{first}", ready.join(", "))
    };
    match (wrong.is_empty(), ready.is_empty()) {
        (false, _) => Row::short("model providers", Status::Note, value, wrong.join("; ")),
        (true, true) => Row::short(
            "model providers",
            Status::Note,
            value,
            "set one, or use a local model (ollama/<model>); `posse demo` and scripted models need none",
        ),
        (true, false) => Row::ok("model providers", value),
    }
}

/// How old the prices are that money is counted with.
pub(super) fn prices(settings: &Settings, environment: &Environment) -> Row {
    let providers = settings.providers.providers(&environment.variables);
    match settings.providers.prices(&providers) {
        Ok(own) if own.is_empty() => Row::ok("prices", format!("of {}", prices_taken())),
        Ok(own) => Row::ok("prices", format!("of {}, and {} of your own", prices_taken(), own.len())),
        Err(error) => Row::short(
            "prices",
            Status::Missing,
            error.message(),
            "write each as provider/model in the settings",
        ),
    }
}
