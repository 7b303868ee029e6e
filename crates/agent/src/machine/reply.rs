//! Replies made fit to be journalled, and their calls told apart.

use std::collections::{HashMap, HashSet};

use posse_domain::canonical_json;
use posse_domain::hash::Hash;
use posse_domain::lifecycle::is_host_call;
use posse_domain::message::{Reply, ToolCall};

/// What makes two calls the same. The order of fields does not matter.
pub(super) fn signature(call: &ToolCall) -> String {
    format!("{}:{}", call.name, Hash::of(canonical_json(&call.input).as_bytes()))
}

/// Makes a reply fit to be journalled: every call has an id of its own, and none has one that the host gives to what it
/// does itself, because an answer or a hook would then be about the wrong call. Gives the ids that had to be made up because
/// the model repeated one; those calls are answered, not run.
pub fn accept(mut reply: Reply) -> (Reply, Vec<String>) {
    // An id that is made up may not be one that the model gave to another call.
    let given: HashSet<String> = reply.calls.iter().map(|call| call.id.clone()).collect();
    let mut taken: HashSet<String> = HashSet::with_capacity(reply.calls.len());
    // The next number to try for an id: a reply may repeat one ten thousand times.
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
        // What the provider wrote names the call otherwise.
        reply.raw = None;
        if !nameless {
            repeated.push(call.id.clone());
        }
    }
    (reply, repeated)
}
