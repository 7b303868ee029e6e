//! Prepares replies for the journal: gives each call a unique id.

use std::collections::{HashMap, HashSet};

use posse_domain::canonical_json;
use posse_domain::hash::Hash;
use posse_domain::lifecycle::is_host_call;
use posse_domain::message::{Reply, ToolCall};

/// The key by which two calls are the same. The order of fields does not matter.
pub(super) fn signature(call: &ToolCall) -> String {
    format!("{}:{}", call.name, Hash::of(canonical_json(&call.input).as_bytes()))
}

/// Prepares a reply for the journal. Every call gets a unique id that is not one of the host's, because an answer or a
/// hook would otherwise apply to the wrong call. Returns the new ids of calls that repeated another call's id. These
/// calls get an error result and are not run.
pub fn accept(mut reply: Reply) -> (Reply, Vec<String>) {
    // A new id must differ from every id that the model gave.
    let given: HashSet<String> = reply.calls.iter().map(|call| call.id.clone()).collect();
    let mut taken: HashSet<String> = HashSet::with_capacity(reply.calls.len());
    // The next number to try for each id: a reply may repeat one ten thousand times.
    let mut next: HashMap<String, usize> = HashMap::new();
    let mut repeated = Vec::new();
    for (at, call) in reply.calls.iter_mut().enumerate() {
        if is_host_call(&call.id) {
            call.id.clear();
        }
        let nameless = call.id.is_empty();
        if !nameless && taken.insert(call.id.clone()) {
            continue;
        }
        let wanted = if nameless { format!("call_{}", at + 1) } else { std::mem::take(&mut call.id) };
        let number = next.entry(wanted.clone()).or_insert(if nameless { 1 } else { 2 });
        while call.id.is_empty() {
            let id = if nameless && *number == 1 { wanted.clone() } else { format!("{wanted}~{number}") };
            *number += 1;
            if !given.contains(&id) && taken.insert(id.clone()) {
                call.id = id;
            }
        }
        // The provider's raw reply has the old id.
        reply.raw = None;
        if !nameless {
            repeated.push(call.id.clone());
        }
    }
    (reply, repeated)
}
