//! Questions to approvers, with everything an approver needs to answer them, and the answers.

use posse_domain::event::{Event, EventBody};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::permission::{Answer, LayerName, Operation, Pattern};
use posse_engine::ports::MailCommand;

use crate::approvals::StoredApproval;
use crate::view::{OpenQuestion, OpenQuestions, RunSummary, RunView, authority};
use crate::{Error, Posse};

/// Limit of runs that are searched for questions, the newest first.
const RUNS_SEARCHED_MAX: u32 = 1_000;

/// A call that waits for an approver.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingQuestion {
    /// The number of the event that asks.
    pub seq: u64,
    /// The agent that asks.
    pub agent: AgentId,
    /// The id of its call.
    pub call_id: String,
    /// The operation of the call, as `tool:specifier`.
    pub operation: String,
    /// The name of the called tool.
    pub tool: String,
    /// The arguments of the call, as JSON.
    pub arguments: String,
    /// The permission layer that asks.
    pub layer: Option<LayerName>,
    /// The rule of that layer, if a rule asks.
    pub rule: Option<String>,
    /// The layer's reason for this one call, if it has one: a hook does.
    pub reason: Option<String>,
    /// The hash of tool, arguments and contract that an answer is bound to.
    pub approval: Hash,
    /// When the question was asked, in milliseconds since 1970.
    pub asked_at_ms: i64,
    /// The literal that [`Answer::Always`] would store. `None` if storing it would change nothing, because another
    /// layer than a definition asks.
    pub always: Option<Pattern>,
    /// Whether the question was answered, but no process executes the run yet.
    pub is_answered: bool,
}

impl PendingQuestion {
    /// Which layer asks and why, in words.
    pub fn why(&self) -> String {
        let layer = self.layer.as_ref().map_or_else(|| "the rules".to_owned(), ToString::to_string);
        match (&self.rule, &self.reason) {
            (Some(rule), _) => format!("rule `{rule}` ({layer})"),
            (None, Some(reason)) => format!("{layer}: {reason}"),
            (None, None) => format!("{layer} (the default)"),
        }
    }

    fn new(question: OpenQuestion) -> Self {
        let OpenQuestion { seq, agent, at_ms, asked: e, is_answered } = question;
        Self {
            seq,
            agent,
            call_id: e.call_id,
            operation: e.operation,
            tool: e.tool,
            arguments: e.arguments.to_shared().to_string(),
            layer: e.layer.as_deref().and_then(LayerName::parse),
            rule: e.rule.map(|rule| rule.pattern.to_string()),
            reason: e.reason,
            approval: e.approval,
            asked_at_ms: at_ms,
            always: None,
            is_answered,
        }
    }
}

/// Where questions are searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionScope {
    /// In all runs that have not ended, at most 1,000.
    AllRuns,
    /// In one run.
    Run(RunId),
    /// Among the questions of one agent.
    Agent(AgentId),
}

/// The questions that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundQuestions {
    /// The unanswered questions, each with its run.
    pub unanswered: Vec<(RunSummary, PendingQuestion)>,
    /// Whether the search also found a question with an answer that takes effect once the run is resumed.
    pub has_answered: bool,
}

impl Posse {
    /// Finds the calls that wait for an approver in the given scope; with `call_id`, only this call. A run or an agent that
    /// does not exist, or whose run has ended, is an error.
    pub async fn find_questions(
        &self,
        scope: &QuestionScope,
        call_id: Option<&str>,
    ) -> Result<FoundQuestions, Error> {
        let mut found = FoundQuestions { unanswered: Vec::new(), has_answered: false };
        let (runs, agent) = match scope {
            QuestionScope::AllRuns => {
                let all = self.runs("", RUNS_SEARCHED_MAX).await?;
                let running = all.into_iter().filter(|run| run.status.is_running());
                (running.map(|run| run.run).collect(), None)
            }
            QuestionScope::Run(run) => (vec![run.clone()], None),
            QuestionScope::Agent(agent) => (vec![agent.run()], Some(agent)),
        };
        for run in runs {
            let summary = self.summary(&run).await?;
            if let Some(agent) = agent
                && self.current_state(&run).await?.agents().get(agent).is_none()
            {
                return Err(Error::NoAgent(agent.clone()));
            }
            // Of all runs, one may have ended since they were listed.
            if *scope != QuestionScope::AllRuns && !summary.status.is_running() {
                return Err(Error::Ended { run, status: summary.status });
            }
            for question in self.pending_questions(&run).await? {
                let is_meant = agent.is_none_or(|agent| question.agent == *agent)
                    && call_id.is_none_or(|call| question.call_id == call);
                if is_meant && question.is_answered {
                    found.has_answered = true;
                } else if is_meant {
                    found.unanswered.push((summary.clone(), question));
                }
            }
        }
        Ok(found)
    }

    /// The calls of a run that wait for an approver, oldest first: the open questions of its view with their long texts
    /// and with the literal that "always" would store.
    pub async fn pending_questions(&self, run: &RunId) -> Result<Vec<PendingQuestion>, Error> {
        let blocked = self.blocked(run).await?;
        self.complete(run, blocked.questions().clone()).await
    }

    /// The same for the questions of a view that is kept current, without reading the journal. An answer that the
    /// journal has and the view does not have yet is unknown to it.
    pub async fn pending_questions_of(&self, view: &RunView) -> Result<Vec<PendingQuestion>, Error> {
        let Some(run) = view.run().filter(|_| !view.blocked().questions().is_empty()) else {
            return Ok(Vec::new());
        };
        let mut questions = view.blocked().questions().clone();
        questions.mark_answered(&self.store.mail(&self.key(&run)).await?);
        self.complete(&run, questions).await
    }

    /// Adds to questions what is not in the events about them.
    async fn complete(&self, run: &RunId, questions: OpenQuestions) -> Result<Vec<PendingQuestion>, Error> {
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let approvals = questions.approvals().clone();
        let mut open = Vec::new();
        for question in questions.into_vec() {
            open.push(PendingQuestion::new(self.fill(run, question).await?));
        }
        let rows = self.store.agents(&self.key(run)).await?;
        for question in &mut open {
            // A stored literal answers a rule; a hook would ask again.
            let by_hook = question.layer == Some(LayerName::Hook);
            let row = rows.iter().find(|row| row.id == question.agent && !by_hook);
            if let Some(authority) = row.map(authority).transpose()? {
                question.always =
                    authority.literal_that_lifts(&approvals, &Operation::parse(&question.operation));
            }
        }
        Ok(open)
    }

    /// Answers a question. Durable: the process that executes the run acts on it, now or after a resume. An answer is
    /// bound to what was asked and is used once. [`Answer::Always`] is stored for later runs of the same directory too, if
    /// the builder was given [a store](crate::PosseBuilder::approvals) and something can be stored ([`PendingQuestion::always`]).
    ///
    /// ```
    /// # async fn example() -> Result<(), posse::Error> {
    /// use posse::{Answer, Decision, EventKind, NewRun, Posse, Rule};
    ///
    /// let script = posse::scripted::ScriptedModel::from_yaml(r#"
    /// - when: {turn: 1}
    ///   reply: {text: "", tool_calls: [{name: list, input: {path: "."}}]}
    /// - reply: {text: "done"}
    /// "#, "ask.yaml").map_err(|error| posse::Error::invalid(posse::RequestField::Model, error.to_string()))?;
    /// let posse = Posse::builder().model("scripted/ask", script).in_memory().open()?;
    /// let ask = Rule { pattern: "list".parse().unwrap(), decision: Decision::Ask };
    /// let run = NewRun::new("Look.").model("scripted/ask").dir(".").run_rules(vec![ask].into()).attended(true);
    /// let run = posse.start(run).await?;
    ///
    /// let mut events = posse.events(run.id(), 0);
    /// while events.next().await?.kind != EventKind::InputRequested {}
    /// let questions = posse.pending_questions(run.id()).await?;
    /// assert_eq!(questions[0].operation, "list:.");
    /// posse.answer(&questions[0], Answer::Once).await?;
    /// assert_eq!(posse.wait(run.id()).await?.text, "done");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn answer(&self, question: &PendingQuestion, answer: Answer) -> Result<StoredApproval, Error> {
        let run = question.agent.run();
        // The mailbox first, as in `pending_questions`. The events from the question on decide whether it is still
        // open.
        let mail = self.store.mail(&self.key(&run)).await?;
        let mut questions: OpenQuestions = self.fold_after(&run, question.seq.saturating_sub(1)).await?;
        questions.mark_answered(&mail);
        if !questions.has_unanswered(question) {
            return Err(Error::NotAsked {
                agent: question.agent.clone(),
                operation: question.operation.clone(),
            });
        }
        let always = answer == Answer::Always;
        let command = MailCommand::Answer {
            agent: question.agent.clone(),
            call_id: question.call_id.clone(),
            approval: question.approval,
            answer,
        };
        self.store.post(&self.key(&run), command).await?;
        let (Some(literal), Some(approvals)) = (question.always.as_ref().filter(|_| always), &self.approvals)
        else {
            return Ok(StoredApproval::None);
        };
        let dir = self.summary(&run).await?.dir;
        Ok(match approvals.keep(&dir, literal).await {
            Ok(()) => StoredApproval::Stored { literal: literal.clone(), dir },
            Err(error) => StoredApproval::Failed(error),
        })
    }

    /// Fetches the long texts of a question.
    async fn fill(&self, run: &RunId, question: OpenQuestion) -> Result<OpenQuestion, Error> {
        let OpenQuestion { seq, agent, at_ms, asked, is_answered } = question;
        let mut event = Event { agent, at_ms, body: EventBody::InputRequested(asked) };
        posse_engine::fill(&*self.store, &self.key(run), &mut event).await?;
        let EventBody::InputRequested(asked) = event.body else {
            unreachable!("the event of a question is one");
        };
        Ok(OpenQuestion { seq, agent: event.agent, at_ms, asked, is_answered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, EventKind, NewRun, Rule, TimeZone};

    #[tokio::test]
    async fn questions_are_found_in_all_runs_in_one_run_and_of_one_agent() {
        let script = "
- when: {turn: 1}
  reply: {tool_calls: [{name: list, input: {path: .}}]}
- reply: {text: done}
";
        let script = crate::scripted::ScriptedModel::from_yaml(script, "ask.yaml").expect("a script");
        let posse = Posse::builder().model("scripted/ask", script).in_memory().open().expect("open");
        let mut runs = Vec::new();
        for _ in 0..2 {
            let ask = Rule { pattern: "list".parse().expect("pattern"), decision: Decision::Ask };
            let run = NewRun::new("List it.").model("scripted/ask").dir(".").run_rules(vec![ask].into());
            let run = posse.start(run.attended(true)).await.expect("started");
            let mut events = posse.events(run.id(), 0);
            while events.next().await.expect("an event").kind != EventKind::InputRequested {}
            runs.push(run);
        }
        let [first, second] = [runs[0].id(), runs[1].id()];
        let found = posse.find_questions(&QuestionScope::AllRuns, None).await.expect("questions");
        assert_eq!((found.unanswered.len(), found.has_answered), (2, false));
        let blocked = posse.blocked(first).await.expect("a run");
        let words = blocked.of(&first.root()).map(|on| on.words(0, &TimeZone::UTC));
        assert_eq!(words.as_deref(), Some("needs your approval: list:."));
        let found = posse.find_questions(&QuestionScope::Run(first.clone()), None).await.expect("questions");
        let [(summary, question)] = &found.unanswered[..] else { panic!("{found:?}") };
        assert_eq!((&summary.run, &question.agent), (first, &first.root()));
        let scope = QuestionScope::Agent(first.root());
        assert_eq!(posse.find_questions(&scope, Some(&question.call_id)).await.expect("questions"), found);
        assert_eq!(posse.find_questions(&scope, Some("another")).await.expect("questions").unanswered, []);
        let unknown = first.root().child(1);
        let error = posse.find_questions(&QuestionScope::Agent(unknown.clone()), None).await;
        assert_eq!(error, Err(Error::NoAgent(unknown)));

        let listed = posse.listed_runs(9, |_| true).await.expect("runs");
        let waiting: Vec<usize> = listed.iter().map(|run| run.blocked.questions().len()).collect();
        assert_eq!(waiting, [1, 1]);
        posse.answer(question, Answer::Once).await.expect("answered");
        let status = posse.wait(first).await.expect("it ends").status;
        let error = posse.find_questions(&scope, None).await;
        assert_eq!(error, Err(Error::Ended { run: first.clone(), status }));
        let listed = posse.listed_runs(9, |_| true).await.expect("runs");
        let of_first = listed.iter().find(|listed| listed.run.run == *first).expect("the first run");
        assert!(of_first.blocked.questions().is_empty() && !of_first.is_turn_limited, "{of_first:?}");

        posse.stop();
        assert!(runs[1].ended().await.is_err(), "no process executes it");
        let found = posse.find_questions(&QuestionScope::AllRuns, None).await.expect("questions");
        assert_eq!(found.unanswered.len(), 1, "of the run that has not ended");
        posse.answer(&found.unanswered[0].1, Answer::Once).await.expect("answered");
        let found = posse.find_questions(&QuestionScope::Run(second.clone()), None).await.expect("questions");
        assert_eq!((found.unanswered.len(), found.has_answered), (0, true), "the answer waits for a resume");
    }
}
