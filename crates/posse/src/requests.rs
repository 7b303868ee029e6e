//! Questions that wait for a person, and their answers.

use posse_domain::event::{Event, EventBody};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::permission::{Answer, LayerName, Operation, Pattern};
use posse_engine::ports::{Mail, MailCommand};

use crate::approvals::StoredApproval;
use crate::view::{OpenQuestion, OpenQuestions};
use crate::{Error, Posse};

/// A call that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The agent that asks.
    pub agent: AgentId,
    /// Its call.
    pub call_id: String,
    /// What it would do, as `tool:specifier`.
    pub operation: String,
    /// The tool.
    pub tool: String,
    /// What it is called with, as JSON.
    pub arguments: String,
    /// The layer that asks.
    pub layer: Option<String>,
    /// Its rule, if it was a rule.
    pub rule: Option<String>,
    /// What it said of this one call, if it did: a hook does.
    pub reason: Option<String>,
    /// What an answer is bound to: the hash of tool, arguments and contract.
    pub approval: Hash,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at_ms: i64,
    /// What [`Answer::Always`] would keep: the operation's exact literal. None if keeping it would change nothing,
    /// because somebody other than a definition asks.
    pub always: Option<Pattern>,
    /// Whether an answer has been given and waits for somebody to carry the run.
    pub is_answered: bool,
}

impl Request {
    /// Who asks and why, in words.
    pub fn why(&self) -> String {
        let layer = self.layer.as_deref().unwrap_or("the rules");
        match (&self.rule, &self.reason) {
            (Some(rule), _) => format!("{layer}, by the rule `{rule}`"),
            (None, Some(reason)) => format!("{layer}, which said: {reason}"),
            (None, None) => format!("{layer}, by default"),
        }
    }

    fn new(question: OpenQuestion) -> Self {
        let OpenQuestion { agent, at_ms, asked: e } = question;
        Self {
            agent,
            call_id: e.call_id,
            operation: e.operation,
            tool: e.tool,
            arguments: e.arguments.to_shared().to_string(),
            layer: e.layer,
            rule: e.rule.map(|rule| rule.pattern.to_string()),
            reason: e.reason,
            approval: e.approval,
            asked_at_ms: at_ms,
            always: None,
            is_answered: false,
        }
    }
}

impl Posse {
    /// The calls of a run that wait for a person, oldest first.
    pub async fn requests(&self, run: &RunId) -> Result<Vec<Request>, Error> {
        Ok(self.blocked(run).await?.0)
    }

    /// Open questions as requests: with their long texts, whether their answer waits in the mailbox, and what "always"
    /// would store.
    pub(crate) async fn requests_of(
        &self,
        run: &RunId,
        questions: OpenQuestions,
        mail: &[Mail],
    ) -> Result<Vec<Request>, Error> {
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let mut open = Vec::new();
        for question in questions.into_vec() {
            open.push(Request::new(self.fill(run, question).await?));
        }
        let approvals = self.runtime.load(run).await?.terms.approvals;
        let agents = self.get(run).await?.agents;
        for request in &mut open {
            request.is_answered = mail.iter().any(|mail| {
                matches!(&mail.command, MailCommand::Answer { agent, call_id, approval, .. }
                    if *agent == request.agent && *call_id == request.call_id && *approval == request.approval)
            });
            // What is kept is a word to the rules: a hook would ask again.
            let by_hook = request.layer == Some(LayerName::Hook.to_string());
            let agent = agents.iter().find(|agent| agent.id == request.agent && !by_hook);
            if let Some(authority) = agent.map(crate::AgentInfo::authority).transpose()? {
                request.always =
                    authority.literal_that_lifts(&approvals, &Operation::parse(&request.operation));
            }
        }
        Ok(open)
    }

    /// Answers a question. Durable: the process that executes the run acts on it, now or after a resume. An answer is
    /// bound to what was asked and is used once. [`Answer::Always`] is stored for later runs of the same directory too, if
    /// the builder was given [a store](crate::PosseBuilder::approvals) and something can be stored ([`Request::always`]).
    ///
    /// ```
    /// # async fn example() -> Result<(), posse::Error> {
    /// use posse::{Answer, Decision, NewRun, Posse, Rule};
    ///
    /// let script = posse::scripted::ScriptedModel::from_yaml(r#"
    /// - when: {turn: 1}
    ///   reply: {text: "", tool_calls: [{name: list, input: {path: "."}}]}
    /// - reply: {text: "done"}
    /// "#, "ask.yaml").map_err(|error| posse::Error::invalid("model", error.to_string()))?;
    /// let posse = Posse::builder().model("scripted/ask", script).in_memory().open()?;
    /// let ask = Rule { pattern: "list".parse().unwrap(), decision: Decision::Ask };
    /// let run = NewRun::new("Look.").model("scripted/ask").dir(".").run_rules(vec![ask].into()).attended(true);
    /// let run = posse.start(run).await?;
    ///
    /// let mut events = posse.events(run.id(), 0);
    /// while events.next().await?.kind != "agent.input_requested" {}
    /// let requests = posse.requests(run.id()).await?;
    /// assert_eq!(requests[0].operation, "list:.");
    /// posse.answer(&requests[0], Answer::Once).await?;
    /// assert_eq!(posse.wait(run.id()).await?.text, "done");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn answer(&self, request: &Request, answer: Answer) -> Result<StoredApproval, Error> {
        let run = request.agent.run();
        let asked = self.requests(&run).await?;
        let same = |open: &&Request| {
            open.agent == request.agent
                && open.call_id == request.call_id
                && open.approval == request.approval
                && !open.is_answered
        };
        if asked.iter().find(same).is_none() {
            return Err(Error::NotAsked {
                agent: request.agent.clone(),
                operation: request.operation.clone(),
            });
        }
        let always = answer == Answer::Always;
        let command = MailCommand::Answer {
            agent: request.agent.clone(),
            call_id: request.call_id.clone(),
            approval: request.approval,
            answer,
        };
        self.store.post(&self.key(&run), command).await?;
        let (Some(literal), Some(approvals)) = (request.always.as_ref().filter(|_| always), &self.approvals)
        else {
            return Ok(StoredApproval::None);
        };
        let dir = self.get(&run).await?.dir;
        Ok(match approvals.keep(&dir, literal) {
            Ok(()) => StoredApproval::Stored { literal: literal.clone(), dir },
            Err(error) => StoredApproval::Failed(error),
        })
    }

    /// A question with its long texts.
    async fn fill(&self, run: &RunId, question: OpenQuestion) -> Result<OpenQuestion, Error> {
        let OpenQuestion { agent, at_ms, asked } = question;
        let mut event = Event { agent, at_ms, body: EventBody::InputRequested(asked) };
        posse_engine::fill(&*self.store, &self.key(run), &mut event).await?;
        let EventBody::InputRequested(asked) = event.body else {
            unreachable!("the event of a question is one");
        };
        Ok(OpenQuestion { agent: event.agent, at_ms, asked })
    }
}
