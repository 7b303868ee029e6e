//! Budgets of model calls: the ledger decides whether each call fits, and calls that do not fit wait.

use posse_domain::budget::{
    self, Amount, Limit, MIN_OUTPUT_TOKENS, REPORT_INPUT_TOKENS, REPORT_OUTPUT_TOKENS, Reservation, Usd,
};
use posse_domain::event::{Purpose, ReportCause};
use posse_domain::id::AgentId;

use super::context::SummaryCall;
use super::{CallPurpose, ModelDesk};
use crate::driver::core::Core;
use crate::driver::desks::preamble::PreambleDesk;
use crate::driver::session::AgentWait;
use crate::ports::ModelFacts;
use crate::runtime::RequestField;

/// The ledger's answer about a call.
pub(super) enum Quote {
    Granted(Amount),
    Wait,
    Exhausted(String),
}

impl ModelDesk {
    /// Asks the ledger about a call. If work does not fit any more, the call becomes the report turn. If the
    /// conversation of a report does not fit, only its end is sent, for which budget is reserved.
    pub(super) fn quote(
        &self,
        core: &Core,
        preambles: &PreambleDesk,
        id: &AgentId,
        mut call: CallPurpose,
    ) -> (CallPurpose, Quote) {
        let first = self.ask_ledger(core, preambles, id, &call);
        let Quote::Exhausted(reason) = first else { return (call, first) };
        if call.purpose != Purpose::Report {
            let fits_context = call.purpose == Purpose::Work;
            let (purpose, cause) = (Purpose::Report, Some(ReportCause::Budget));
            call =
                CallPurpose { purpose, cause, reason: Some(reason.clone()), trimmed: false, summary: None };
            let whole = self.ask_ledger(core, preambles, id, &call);
            if fits_context && !matches!(whole, Quote::Exhausted(_)) {
                return (call, whole);
            }
        }
        call.trimmed = true;
        match self.ask_ledger(core, preambles, id, &call) {
            Quote::Exhausted(_) => (call, Quote::Exhausted(reason)),
            other => (call, other),
        }
    }

    fn ask_ledger(&self, core: &Core, preambles: &PreambleDesk, id: &AgentId, call: &CallPurpose) -> Quote {
        let (Some(session), Some(facts), Some(preamble)) =
            (core.sessions.get(id), self.facts(id), preambles.of(id))
        else {
            return Quote::Wait;
        };
        let ModelFacts { context_tokens, max_output_tokens, price } = facts;
        let purpose = match call.purpose {
            Purpose::Work | Purpose::Summary => budget::Purpose::Work,
            Purpose::Report => budget::Purpose::Report,
        };
        let preamble_bytes = if call.has_tools() { preamble.bytes } else { preamble.system.len() as u64 };
        let preamble_tokens = preamble_bytes / posse_agent::conversation::BYTES_PER_TOKEN;
        let input_tokens = match call.summary {
            Some(SummaryCall { scope, .. }) => {
                preamble_tokens + session.machine.summary_request(&scope).estimated_tokens()
            }
            None if call.trimmed => REPORT_INPUT_TOKENS,
            None => preamble_tokens + session.machine.upcoming(call.cause).1,
        };
        // Where the newest turn fills the context, the reply has the rest.
        let rest = context_tokens.saturating_sub(input_tokens).max(MIN_OUTPUT_TOKENS);
        let max_output_tokens =
            call.summary.map_or(max_output_tokens, |summary| summary.output_tokens).min(rest);
        let estimate = budget::CallEstimate { input_tokens, max_output_tokens, price };
        match core.run.ledger.quote(id, &estimate, purpose) {
            Ok(Reservation::Granted(amount)) => Quote::Granted(amount),
            Ok(Reservation::Wait { .. }) => Quote::Wait,
            Ok(Reservation::Exhausted(mut exhausted)) => {
                // A recorded run with a money limit had a model with a known price, so a replay ignores that the price
                // is unknown now.
                if let (true, Limit::UnknownPrice(usd)) = (core.replaying.is_some(), exhausted.limit) {
                    exhausted.limit = Limit::Usd(usd);
                }
                Quote::Exhausted(exhausted.to_string())
            }
            Err(error) => Quote::Exhausted(error.to_string()),
        }
    }

    /// The run limit that is too small for the root's first call and its report, with the reason.
    pub(crate) fn first_call_problem(
        &self,
        core: &Core,
        preambles: &PreambleDesk,
    ) -> Option<(RequestField, String)> {
        let root = core.run.id.root();
        let session = core.sessions.get(&root)?;
        let limits = core.run.open(&root)?.contract.budget;
        if limits.wall_ms == Some(0) {
            return Some((
                RequestField::BudgetTime,
                "must be more than 0: even a report takes some time".to_owned(),
            ));
        }
        let input_tokens = preambles.of(&root)?.bytes / posse_agent::conversation::BYTES_PER_TOKEN
            + session.machine.upcoming(None).1
            + REPORT_INPUT_TOKENS;
        let output_tokens = MIN_OUTPUT_TOKENS + REPORT_OUTPUT_TOKENS;
        let needed = input_tokens + output_tokens;
        if let Some(tokens) = limits.tokens.filter(|tokens| *tokens < needed) {
            let problem = format!("{tokens} is too little: the first call and a report need {needed} tokens");
            return Some((RequestField::BudgetTokens, problem));
        }
        let needed = Usd::from_micros(self.facts(&root)?.price?.worst(input_tokens, output_tokens));
        // A limit of zero allows no call, even if the model costs nothing.
        let usd = limits.usd.filter(|usd| *usd < needed || usd.micros() == 0)?;
        let problem = if usd.micros() == 0 {
            format!("{usd} allows no call, not even of a model that costs nothing")
        } else {
            format!("{usd} is too little: the first call and a report may cost up to {needed}")
        };
        Some((RequestField::BudgetUsd, problem))
    }

    pub(super) fn wait_for_budget(&mut self, core: &mut Core, id: &AgentId) {
        if let Some(session) = core.sessions.get_mut(id) {
            session.wait = AgentWait::Budget;
            self.budget_queue.push_back(id.clone());
        }
    }

    /// Retries the calls that did not fit into a budget, in their order, because a call was charged.
    pub(crate) fn retry_budget_queue(&mut self, core: &mut Core) {
        for id in std::mem::take(&mut self.budget_queue) {
            let session = core.sessions.get(&id);
            if session.is_some_and(|session| matches!(session.wait, AgentWait::Budget)) {
                Self::request_call(core, &id);
            }
        }
    }
}
