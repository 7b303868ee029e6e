//! The first event of a run: the accepted request, and the contract and snapshot that the host derived from it.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::files::BaseSnapshot;
use crate::contract::Contract;
use crate::hash::Hash;
use crate::request::RunRequest;

/// See [`super::EventBody::RunStarted`]. In JSON the request's fields are flattened into the event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunStarted {
    /// The request without its plan, which `run.planned` has.
    #[serde(flatten)]
    pub request: RunRequest,
    /// The root's contract.
    pub contract: Contract,
    /// Hash of the root's contract.
    pub contract_hash: Hash,
    /// The snapshot that the run starts from. None if no agent of the run can change files, or if it has no workspaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseSnapshot>,
}

/// Removes its own fields and parses the rest as a request, which refuses unknown fields. A derived `flatten` would
/// ignore them.
impl<'de> Deserialize<'de> for RunStarted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let contract: Option<Contract> = take(&mut fields, "contract")?;
        let contract_hash: Option<Hash> = take(&mut fields, "contract_hash")?;
        let base = take(&mut fields, "base")?;
        if let Some(contract) = contract.as_ref().filter(|_| !fields.contains_key("model")) {
            add_terms_of_contract(&mut fields, contract);
        }
        let request = serde_json::from_value(Value::Object(fields));
        let request = request
            .map_err(|error| Error::custom(format!("{error}, beside `contract`, `contract_hash`, `base`")))?;
        let contract = contract.ok_or_else(|| Error::missing_field("contract"))?;
        let contract_hash = contract_hash.ok_or_else(|| Error::missing_field("contract_hash"))?;
        Ok(Self { request, contract, contract_hash, base })
    }
}

fn take<T: DeserializeOwned, E: Error>(fields: &mut Map<String, Value>, name: &str) -> Result<Option<T>, E> {
    let value = fields.remove(name).unwrap_or_default();
    serde_json::from_value(value).map_err(|error| E::custom(format!("{name}: {error}")))
}

/// Upgrades an event that has these parts of the request only in the root's contract.
fn add_terms_of_contract(fields: &mut Map<String, Value>, contract: &Contract) {
    let parts = [
        ("definition", json!(contract.execution.definition)),
        ("model", json!(contract.execution.model)),
        ("prompt", json!(contract.step.description)),
        ("max_depth", json!(contract.context.max_depth)),
        ("budget", json!(contract.budget)),
        ("idle_timeout_ms", json!(contract.execution.idle_timeout_ms)),
        ("may_share_history", json!(contract.permissions.may_share_history)),
        ("on_ask", json!(contract.permissions.on_ask)),
    ];
    fields.extend(parts.map(|(name, value)| (name.to_owned(), value)));
}
