// Generated from the OpenAPI document by `cargo xtask reference`.

import {
  follow,
  get,
  getText,
  part,
  post,
  url,
  type CallOptions,
  type Follower,
  type Following,
} from './transport';

/** What an agent does for some time. */
export type Activity =
  /** It waits to start, or is between two activities. */
  | 'waiting'
  /** Its model writes a reply. */
  | 'model'
  /** Its tool calls are executed. A call of `task` lasts as long as the child that it waits for. */
  | 'tools'
  /** A call waits for an approver. */
  | 'approver'
  /** Its work has ended and is being integrated. */
  | 'integration';

/** An activity, until the next one of the same agent begins. */
export interface ActivitySpan {
  /** What the agent does. */
  activity: Activity;
  /** When it began, since the start of the run. */
  from_ms: number;
}

/** A project in which clients may start runs. */
export interface AddProject {
  /** The directory, on the server's machine. The project is the repository that it is in, or the directory alone. */
  dir: string;
  /** The tenant whose clients may start runs there. By default it is the one of the token. */
  tenant?: string | null;
}

/** An agent of a run. */
export interface Agent {
  /** The agent's id. */
  id: string;
  /** The agent that created it; null for the root. */
  parent: string | null;
  /** Its distance from the root, which has depth 0. */
  depth: number;
  /** The name of its definition. */
  definition: string;
  /** The description that its parent gave, or the first line of the request. */
  title: string;
  /** Its model, `provider/model`. */
  model: string;
  /** The skill that it executes. */
  skill?: string | null;
  /** The state of its lifecycle. */
  state: AgentState;
  /** How it ended. */
  final_status: FinalStatus | null;
  /** `integrated`, or the kind of its failure. */
  close_reason: CloseReason | null;
  /** The code of its failure or cancellation, for programs. */
  code?: Code | null;
  /** The reason of its failure or cancellation in words. */
  reason?: string | null;
  /** Its own turns, without its children's. */
  turns: number;
  /** Its limit of turns, for each attempt; null if there is none. */
  turn_limit: number | null;
  /** Its own tool calls that have ended, without its children's. */
  tool_calls: number;
  /** Its own tool calls in progress, as far as the last events of the run tell. */
  open_calls: number;
  /** Its own tool calls that were refused. */
  refused: number;
  /** How many files its accepted work changed; null if it cannot change files, or if no work of it was accepted. */
  files_changed: number | null;
  /** What a running agent does, in words, as far as the last events of the run tell. */
  activity?: string | null;
  /** How long it has been open. */
  wall_ms: number;
  /** What the agent itself spent. */
  usage: Usage;
  /** What the agent and its subtree spent. */
  subtree_usage: Usage;
  /** Whether its turn limit cut off its work. */
  turns_exhausted: boolean;
  /** What it waits for, in words, if that is an approver or a provider. */
  blocked?: string | null;
  /** What it waits for, if that is an approver or a provider. */
  blocked_on?: BlockedOn | null;
}

/** One agent definition as its agents have it in a run. */
export interface AgentDetail {
  /** The definition with the rules that a run adds. */
  definition: Definition;
  /** Where it comes from. */
  origin: DefinitionSource;
  /** Its file; null for a built-in one. */
  path: string | null;
  /** Whether the user trusts its content. */
  trusted: boolean;
  /** A model that its file names but that is not used. */
  unused_model: string | null;
  /** Problems and notes about its file. */
  warnings: FileFinding[];
  /** The file whose text a run adds to the prompt. */
  agents_md: string | null;
  version: 1;
}

export type AgentId = string;

/** The agents of a directory. */
export interface AgentList {
  /** Discovered ones in the order of their search directories, then the built-in ones. */
  agents: DefinitionEntry[];
  /** Why files that look like agents cannot be used. */
  unusable: FileFinding[];
  version: 1;
}

/** An agent that has ended, for a wait for it. */
export interface AgentOutcome {
  /** The agent's id. */
  id: string;
  /** The agent that created it; null for the root. */
  parent: string | null;
  /** Its distance from the root, which has depth 0. */
  depth: number;
  /** The name of its definition. */
  definition: string;
  /** The description that its parent gave, or the first line of the request. */
  title: string;
  /** Its model, `provider/model`. */
  model: string;
  /** The skill that it executes. */
  skill?: string | null;
  /** The state of its lifecycle. */
  state: AgentState;
  /** How it ended. */
  final_status: FinalStatus | null;
  /** `integrated`, or the kind of its failure. */
  close_reason: CloseReason | null;
  /** The code of its failure or cancellation, for programs. */
  code?: Code | null;
  /** The reason of its failure or cancellation in words. */
  reason?: string | null;
  /** Its own turns, without its children's. */
  turns: number;
  /** Its limit of turns, for each attempt; null if there is none. */
  turn_limit: number | null;
  /** Its own tool calls that have ended, without its children's. */
  tool_calls: number;
  /** Its own tool calls in progress, as far as the last events of the run tell. */
  open_calls: number;
  /** Its own tool calls that were refused. */
  refused: number;
  /** How many files its accepted work changed; null if it cannot change files, or if no work of it was accepted. */
  files_changed: number | null;
  /** What a running agent does, in words, as far as the last events of the run tell. */
  activity?: string | null;
  /** How long it has been open. */
  wall_ms: number;
  /** What the agent itself spent. */
  usage: Usage;
  /** What the agent and its subtree spent. */
  subtree_usage: Usage;
  /** Whether its turn limit cut off its work. */
  turns_exhausted: boolean;
  /** What it waits for, in words, if that is an approver or a provider. */
  blocked?: string | null;
  /** What it waits for, if that is an approver or a provider. */
  blocked_on?: BlockedOn | null;
  /** Its report; if it failed, the reason and its last text. */
  report: string | null;
  /** The exit code of the command. */
  exit: number;
  version: 1;
}

/** The states of an agent's lifecycle. */
export type AgentState =
  /** The row and the contract are committed. */
  | 'created'
  /** An attempt is under way. */
  | 'running'
  /** The work ended, nothing is accepted yet. */
  | 'waiting_for_merge'
  /** Integration passed. */
  | 'completed'
  /** It failed. */
  | 'failed'
  /** No further activity, ever. */
  | 'closed';

/** What one agent spent. */
export interface AgentStats {
  /** The agent's id. */
  id: string;
  /** The agent's model. */
  model: string;
  /** Its distance from the root, which has depth 0. */
  depth: number;
  /** What the agent itself spent. */
  own: FigureValues;
  /** What the agent and its subtree spent. */
  subtree: FigureValues;
}

/** One event of the task view of an agent, as subscribers read it. */
export type AgentTaskEvent = {
  version: 1;
} & ({
  type: 'status';
  /** The state from now on. */
  state: TaskState;
  /** What happened, in one line. */
  message: string;
} | {
  type: 'message';
  /** The texts. */
  parts: string[];
} | {
  type: 'error';
  /** The code, for programs. */
  error_code: Code;
  /** The reason in words. */
  error_message: string;
} | {
  type: 'done';
  /** The state at its end. */
  final_state: TaskState;
} | {
  type: 'sub_agent';
  /** The sub-agent's id. */
  agent_id: string;
  /** Its event, which is never itself a `sub_agent`. */
  event: TaskEvent;
});

/** The track of one agent. */
export interface AgentTrack {
  /** The agent's id. */
  agent: string;
  /** The agent that created it; null for the root. */
  parent: string | null;
  /** The name of its definition. */
  definition: string;
  /** Its task in a few words. */
  title: string;
  /** When it closed, since the start of the run; null if it is open. */
  until_ms: number | null;
  /** Its activities in the order of time; the first one began when the agent was created. */
  spans: ActivitySpan[];
  /** Its effects that have ended, in the order of their ends. */
  effects: EffectSpan[];
  /** How many older spans and effects are not listed. */
  omitted: number;
}

/** What all runs spent together. */
export interface AllStats {
  /** The number of runs in the sums. */
  runs: number;
  /** The number of replays. They spent nothing, so they are in no sum. */
  replays_left_out: number;
  /** The sum over all runs. */
  total: Total;
  /** A sum for each model. */
  by_model: Total[];
  /** A sum for each day. */
  by_day: Total[];
  version: 1;
}

/** A question with the answer that was given. */
export interface Answer {
  /** The agent that asks. */
  agent: string;
  /** The id of its call. */
  call_id: string;
  /** The operation of the call, as `tool:specifier`. */
  operation: string;
  /** The name of the called tool. */
  tool: string;
  /** The arguments of the call. */
  arguments: unknown;
  /** The layer that asks, and why. */
  because: string;
  /** The hash of tool, arguments and contract that an answer is bound to. */
  approval: string;
  /** When the question was asked. */
  asked_at: string;
  /** The literal that the answer "always" would store; null if that would change nothing. */
  literal: string | null;
  /** The decision of the approver. */
  decision: AnswerDecision;
  /** Whether the answer was stored for later runs. */
  always: boolean;
  /** Whether a process executes the run and so acts on the answer now. */
  carried: boolean;
  version: 1;
}

/** The answer to a question. */
export type AnswerDecision =
  /** The call may run. */
  | 'allow'
  /** The call must not run. */
  | 'deny';

/** The answer to a question. */
export interface AnswerQuestion {
  /** The `approval` of the question, so that the answer is about exactly what was shown. */
  approval: string;
  /** The agent that asks, if several ask the same. */
  agent?: string | null;
  /** The id of its call, if several calls ask the same. */
  call_id?: string | null;
  /** The decision. */
  decision: QuestionDecision;
  /** Why the call is denied, which the agent reads. */
  reason?: string | null;
}

/** What an apply would do. Nothing was written. */
export interface ApplyCheck {
  /** The run's id. */
  run: string;
  /** The agent whose changes these are; the root, whose id is that of the run, stands for the run's result. */
  agent: string;
  /** The user's directory; null if no agent of the run could change files. */
  dir: string | null;
  /** The first files that would be written or removed. */
  planned: PlannedFile[];
  /** The number of files that would be written or removed. */
  files: number;
  /** The number of those files that would contain both the run's change and the user's. */
  merged: number;
  /** The number of files that equal the result already. */
  already: number;
  version: 1;
}

/** The changes of a run, or of one of its agents, that were applied to the user's directory or taken back from it. */
export interface ApplyResult {
  /** The run's id. */
  run: string;
  /** The agent whose changes these are; the root, whose id is that of the run, stands for the run's result. */
  agent: string;
  /** Whether an earlier apply was taken back. */
  undo: boolean;
  /** That directory; null if no agent of the run could change files. */
  dir: string | null;
  /** The number of files that were written or removed. */
  files: number;
  /** The number of those files that contain both the run's change and the user's. */
  merged: number;
  /** The number of files that equalled the result already. */
  already: number;
  version: 1;
}

/** Work that is to be applied to the directory of its run. */
export interface ApplyWork {
  /** The agent whose work alone is applied, by its id or as `2.1`. Without it, it is the result of the run. */
  agent?: string | null;
  /** Also apply the work of a run or an agent that failed or was cancelled. */
  unfinished?: boolean;
  /** Take back what the last apply wrote. */
  undo?: boolean;
}

/**
 * An entry of the log of what the clients of a server decided. Each decision has one before it takes effect, and one with
 * its outcome.
 */
export interface AuditEntry {
  /** The number of the decision, which both of its entries have. */
  id: string;
  /** When. */
  at: string;
  /** The name of the token. */
  token: string;
  /** The tenant of the token. */
  tenant: string;
  /** The operation, such as `answerQuestion`. */
  operation: string;
  /** The run that it is about; null if it is about none. */
  run: string | null;
  /** What was decided, such as `decision=deny`. */
  detail: string;
  /** What became of it: the status of the response, and the code of a problem; null before it took effect. */
  outcome: string | null;
}

/** The newest entries of the audit log. */
export interface AuditPage {
  /** The entries, newest first. */
  entries: AuditEntry[];
  version: 1;
}

/** A fact about an operation that the rules do not show. */
export type BeyondRules =
  /** The path is protected. An approval of this pattern, given with the request of a run, opens it. */
  | {
    kind: 'opened_by';
    /** The pattern to approve. */
    pattern: string;
  }
  /** An address that is not public is refused, unless an approval names its host. */
  | {
    kind: 'public_addresses_only';
  }
  /** No approver is asked about the network. An approval that is given with the request of a run opens it. */
  | {
    kind: 'network_in_advance';
  }
  /** The sandbox limits what the command can do. */
  | {
    kind: 'sandbox_limits';
  };

/** What a blocked agent waits for. */
export type BlockedOn =
  /** An answer to its oldest open question. */
  | {
    kind: 'approver';
    /** The id of the call that it asks about. */
    call_id: string;
    /** The operation of the call, as `tool:specifier`. */
    operation: string;
    /** How many more open questions it has. */
    more: number;
    /** Whether the question was answered, but no process executes the run yet. */
    answered: boolean;
  }
  /** The provider of its model. */
  | {
    kind: 'provider';
    /** The provider's name. */
    provider: string;
    /** Why it waits, as the provider or the client states it. */
    reason: string;
    /** When the wait is expected to end. */
    until: string;
  };

/** What a subtree may spend. Zero means zero. No limit is written `null` or `"none"`. */
export interface Budget {
  /** Tokens, input and output together. */
  tokens: number | null | 'none';
  /** Money. */
  usd: number | null | 'none';
  /** Agents ever created in the subtree, its own root included. */
  agents: number | null | 'none';
  /** Wall time from the start. */
  wall_ms: number | null | 'none';
}

/** A request to cancel or kill a run, or one of its agents with its subtree. */
export interface CancelResult {
  /** The run's id. */
  run: string;
  /** The agent; the root, whose id is that of the run, stands for the run. */
  agent: string;
  /** What became of the request. */
  state: CancelState;
  /** How it ended, in words. */
  summary: string | null;
  version: 1;
}

/** What became of a request to cancel or kill an agent. */
export type CancelState =
  /** It has ended. */
  | 'ended'
  /** It had ended before. */
  | 'already_ended'
  /** The request is recorded, and a process executes it. */
  | 'requested'
  /** The request is recorded. No process executes the run, and the request takes effect when the run is resumed. */
  | 'at_resume';

/** A file that was changed. */
export interface ChangedFile {
  /** The path before the change; null if the file was added. */
  old_path: string | null;
  /** The path after the change; null if the file was deleted. */
  new_path: string | null;
  /** How many lines were added; null if the file is not text. */
  added: number | null;
  /** How many lines were removed; null if the file is not text. */
  removed: number | null;
  /** The part of the unified diff that is about this file. */
  text: string;
}

/** A file of a list of changes, without its lines. */
export interface ChangedFileEntry {
  /** Its path; that before the change, if it was deleted. */
  path: string;
  /** The path before the change, if it is another one. */
  old_path?: string | null;
  /** What happened to it. */
  status: FileStatus;
  /** How many lines were added; null if the file is not text. */
  added: number | null;
  /** How many lines were removed; null if the file is not text. */
  removed: number | null;
}

/** The changed files of a run, or of one of its agents, without their lines. */
export interface ChangedFileList {
  /** The run's id. */
  run: string;
  /** The agent whose changes these are; the root, whose id is that of the run, stands for the run's result. */
  agent: string;
  /** The changed files, in the order of the diff. */
  files: ChangedFileEntry[];
  /** How many lines were added in all of them. */
  added: number;
  /** How many lines were removed in all of them. */
  removed: number;
  version: 1;
}

/** A plan to check. Nothing is started. */
export interface CheckPlan {
  /** The plan: an object, or YAML as a text. */
  plan: unknown;
  /** The directory whose definitions the steps use. By default it is the project that the server was started in. */
  dir?: string | null;
  /** The definition of the root agent, which decides which agents it can start. */
  agent?: string | null;
}

/** A check of an agent's work. */
export interface CheckResult {
  /** The command. */
  command: string;
  /** Whether it passed. */
  ok: boolean;
  /** How the command ended: an exit code, a signal, its timeout, or why it did not run. */
  ended: string;
  /** How long it took. */
  elapsed_ms: number;
}

/** The result of one check of the machine. */
export type CheckStatus =
  /** Nothing is wrong. */
  | 'ok'
  /** Posse works without it, with restrictions. */
  | 'note'
  /** Operations that need it are refused. */
  | 'missing';

/** Why an agent closed. */
export type CloseReason =
  /** Its work was accepted. */
  | 'integrated'
  /** The work failed. */
  | 'execution'
  /** A rule forbade the work. */
  | 'policy'
  /** An attempt, turn or idle timeout passed. */
  | 'timeout'
  /** Tokens, money, agents or wall time ran out. */
  | 'budget'
  /** The work was not accepted. */
  | 'integration'
  /** It was cancelled. */
  | 'cancelled';

/** A stable error code. */
export type Code =
  /** The tree may not grow deeper. */
  | 'MAX_DEPTH_EXCEEDED'
  /** The contract does not allow spawning, or not this definition. */
  | 'SPAWN_NOT_ALLOWED'
  /** A child failed in its work. */
  | 'SUBAGENT_ERROR'
  /** A rule or the grant forbids the operation. */
  | 'PERMISSION_DENIED'
  /** An attempt, turn or idle timeout passed. */
  | 'TIMEOUT'
  /** Tokens, money, agents or wall time ran out. */
  | 'BUDGET_EXHAUSTED'
  /** The turns ran out before the work was done. */
  | 'TURN_LIMIT'
  /** The agent or the run was cancelled. */
  | 'CANCELLED'
  /** The change does not merge. */
  | 'INTEGRATION_CONFLICT'
  /** The host's checks failed. */
  | 'CHECKS_FAILED'
  /** A path that the agent does not own. */
  | 'OWNERSHIP_VIOLATION'
  /** No definition has that name. */
  | 'UNKNOWN_AGENT'
  /** No skill has that name. */
  | 'UNKNOWN_SKILL'
  /** No child of the caller has that id. */
  | 'UNKNOWN_TASK'
  /** No tool has that name. */
  | 'UNKNOWN_TOOL'
  /** The input does not match its schema. */
  | 'INVALID_INPUT'
  /** The model gave no answer, or no usable one. */
  | 'MODEL_ERROR'
  /** The provider does not know the key, or the key may not use the model. */
  | 'UNAUTHENTICATED'
  /** The conversation is longer than the model accepts. */
  | 'CONTEXT_OVERFLOW'
  /** A replayed run made another model request than the recorded one. */
  | 'REPLAY_DIFFERS'
  /** The journal could not be written or read. */
  | 'STORE_ERROR'
  /** A tool failed. */
  | 'TOOL_ERROR'
  /** The process ended during the operation. The outcome is unknown. */
  | 'INTERRUPTED'
  /** This machine or this version cannot do it. */
  | 'UNSUPPORTED';

/** A criterion that is a command. */
export interface CommandCriterion {
  /** The shell command; it passes by exiting 0. */
  command: string;
  /** The timeout of the command. */
  timeout_ms: number | null;
}

/** What a command of an agent can reach. */
export interface CommandLimits {
  /** What the sandbox consists of on this machine; null if there is none, so that commands are refused. */
  sandbox: string | null;
  /** Whether the command has the network of the machine. */
  network: boolean;
  /** Whether the command can change the workspace of its agent. It can always change temporary directories of its own. */
  can_change_workspace: boolean;
}

/** Lines that both changed, with the first lines of each side. */
export interface ConflictHunk {
  /** The number of the first line in the parent's file. */
  line: number;
  /** The parent's lines. */
  parent: string[];
  /** The sub-agent's lines. */
  agent: string[];
  /** The number of further lines of both. */
  more_lines: number;
}

/** A file that a sub-agent and its parent changed in different ways. */
export interface ConflictedFile {
  /** The path of the file. */
  path: string;
  /** Why the changes were not merged: `lines`, `parent_deleted`, `agent_deleted`, `not_text` or `in_the_way`. */
  kind: string;
  /** The first places that both changed. */
  hunks: ConflictHunk[];
  /** The number of further places. */
  more_hunks: number;
}

/** A follow-up for an agent that has ended: a new run that begins with its conversation and its files. */
export interface ContinueRun {
  /** The next message in the conversation of the agent. */
  text: string;
  /** Another definition for the root of the new run. By default it is that of the earlier agent. */
  agent?: string | null;
  /** Operations that are approved in advance, such as `network`. */
  allow?: string[];
  /** The run's own rules; the last one that matches an operation wins. */
  rules?: RunRule[];
  /** The base URL of the model's provider. By default it is that of the earlier run. */
  base_url?: string | null;
  /** Settings of this run by their names. The model is that of the earlier run unless it is named. */
  settings?: {
    /** The model, as `provider/name`; `scripted/<file>` takes replies from a YAML script, `replay/<run>` and `replay/<file>.posse` from a recorded run */
    model?: string | number | boolean;
    /** Deepest level of sub-agents; 0 allows none */
    'agent.max_depth'?: string | number | boolean;
    /** Maximum number of turns of the root, halved with every level below it; `none` for no limit */
    'agent.max_turns'?: string | number | boolean;
    /** Maximum number of agents in the whole tree; `none` for no limit */
    'agent.max_agents'?: string | number | boolean;
    /** Maximum number of tokens of the whole tree; `none` for no limit */
    'agent.max_tokens'?: string | number | boolean;
    /** Maximum cost of the whole tree, in dollars; `none` for no limit */
    'agent.max_usd'?: string | number | boolean;
    /** Maximum wall time of the run, such as 90s, 30m or 2h; `none` for no limit */
    'agent.max_time'?: string | number | boolean;
    /** Maximum number of calls at once; `none` for no limit */
    'agent.parallel'?: string | number | boolean;
    /** Let agents share their conversation with the sub-agents that they start */
    'agent.may_share_history'?: string | number | boolean;
    /** For embedders: the events of an agent as a task (`posse::Posse::task_events`) include those of the sub-agents below it */
    'agent.include_sub_agent_events'?: string | number | boolean;
    /** What happens to a question that no user can answer at once: `deny` refuses the call, `escalate` lets it wait for an approver */
    on_ask?: string | number | boolean;
  };
}

/** The terms of one agent. */
export interface Contract {
  /** Format version. */
  version: number;
  /** Depth and lineage. */
  context: ExecutionContext;
  /** The terms that the parent set. The child cannot change them. */
  parent: ParentTerms;
  /** The work of the agent. */
  step: StepTerms;
  /** What the agent may do. */
  permissions: Grant;
  /** How the agent is executed. */
  execution: ExecutionTerms;
  /** The budget of the agent and its subtree. */
  budget: Budget;
  /** The results that the agent returns. */
  outputs: OutputTerms;
}

/** The terms of an agent: in words, and in full. */
export interface ContractDetail {
  /** The run's id. */
  run: string;
  /** The agent's id. */
  agent: string;
  /** The terms in words, one line each. */
  words: string[];
  /** The contract, as the journal has it. */
  contract: Contract;
  version: 1;
}

/** A part of the conversation of an agent. */
export interface Conversation {
  /** The agent's id. */
  agent: string;
  /** The entries in their order. */
  entries: ConversationEntry[];
  /** The number of the last event of the run that was looked at: the next part begins after it. */
  after: number;
  /** Whether there were more entries when this part was made. */
  more: boolean;
  version: 1;
}

/** One entry of a conversation. */
export type ConversationEntry = {
  /** The number of its event. */
  seq: number;
  /** When it happened. */
  at: string;
  /** The event in one line. */
  summary: string;
} & ({
  kind: 'assignment';
  /** The agent that gives the task; null if it is the user. */
  from: string | null;
  /** The task. */
  text: string;
  /** What the agent reads beside it: the prompt that a skill made, further context. */
  further: string[];
  /** The agent whose conversation comes before this one. */
  begins_with?: string | null;
} | {
  kind: 'system_prompt';
  /** Its text, with AGENTS.md and the skills. */
  text: string;
} | {
  kind: 'reply';
  /** The number of the turn in the attempt. */
  turn: number;
  /** Its thinking, if the provider shows it. */
  thinking?: string | null;
  /** Its text. */
  text: string;
  /** The calls that it requests. */
  calls: RequestedCall[];
  /** What the call of the model used. */
  usage: Usage;
  /** How long it took. */
  elapsed_ms: number;
  /** Whether the reply is longer than the model may write. */
  cut_off: boolean;
} | {
  kind: 'summary';
  /** What the call of the model used. */
  usage: Usage;
  /** How long it took. */
  elapsed_ms: number;
} | {
  kind: 'failed_reply';
  /** The number of the turn in the attempt. */
  turn: number;
  /** The code of the failure. */
  code: Code;
  /** The reason in words. */
  message: string;
  /** The HTTP status, if the provider answered. */
  status: number | null;
  /** Whether the call is repeated. */
  again: boolean;
  /** How long it took. */
  elapsed_ms: number;
} | {
  kind: 'tool_result';
  /** The id of the call. */
  call_id: string;
  /** The name of the tool. */
  tool: string;
  /** What the model reads. */
  output: string;
  /** The code of a call that failed. */
  code: Code | null;
  /** Whether the call was cut off, so that its outcome is unknown. */
  cut_off?: boolean;
  /** The pictures that the model sees, in words. */
  pictures?: string | null;
  /** How long it took. */
  elapsed_ms: number;
} | {
  kind: 'question';
  /** The id of the call. */
  call_id: string;
  /** The operation. */
  operation: string;
  /** The input of the call, as JSON. */
  arguments: string;
} | {
  kind: 'answered';
  /** The id of the call. */
  call_id: string;
  /** Whether the call may run. */
  allowed: boolean;
  /** The reason of the answer. */
  reason: string | null;
} | {
  kind: 'message';
  /** The sender: `user`, `host`, or the id of an agent. */
  from: string;
  /** Its text. */
  text: string;
} | {
  kind: 'compacted';
  /** The summary. */
  text: string;
  /** How many messages it replaces. */
  replaced: number;
  /** How many of the newest messages stay. */
  kept: number;
  /** The estimated tokens before. */
  tokens_before: number;
  /** The estimated tokens after. */
  tokens_after: number;
} | {
  kind: 'report';
  /** Its text. */
  text: string;
  /** Whether the turn limit cut off the work. */
  turns_exhausted: boolean;
} | {
  kind: 'failed';
  /** The code of the failure. */
  code: Code;
  /** The reason in words. */
  reason: string;
  /** Its last text. */
  text: string | null;
} | {
  kind: 'other';
  /** The kind of the event. */
  event: string;
});

/** One success criterion: words for the child, or a command that the host runs. */
export type Criterion =
  /** Words in the child's prompt, which its report must answer. */
  | string
  /** A command that the host runs on the merged tree. */
  | CommandCriterion;

/** The decision of a layer about an operation. Ordered: deny < ask < allow, and the lowest wins. */
export type Decision =
  /** The operation is forbidden. */
  | 'deny'
  /** A user decides. */
  | 'ask'
  /** The operation is allowed. */
  | 'allow';

/** A kind of agent: its prompt, tools, rules and limits. */
export interface Definition {
  /** The name, `[a-z0-9_-]`. */
  name: string;
  /** The display name. */
  display_name: string;
  /** When to use it, for a parent's model. */
  description: string;
  /** The system prompt. */
  prompt: string;
  /** The listed tools. */
  tools: string[];
  /** The definitions that its agents may spawn. None means that they may not spawn. */
  spawns: string[] | null;
  /** The turn limit of its agents at the first level. */
  max_turns: number | null;
  /** The model. None means the parent's. */
  model: string | null;
  /** Sampling temperature. */
  temperature: number | null;
  /** Nucleus sampling. */
  top_p: number | null;
  /** Whether it is for roots or for children. */
  mode: Mode;
  /** Decides calls of the listed tools that no rule matches. */
  default: Trust;
  /** The permission rules. */
  rules: Rule[];
  /** How many of its agents may run at once in a run. None means no limit. */
  parallel: number | null;
  /** The skills that its agents may use. None means every skill. */
  skills?: string[] | null;
  /** Whether its agents work in the background unless the caller decides otherwise. */
  background?: boolean;
  /** Whether its agents may share their conversation with children, if their parent may. */
  may_share_history?: boolean;
}

/** The result of a strict check of definition or skill files. */
export interface DefinitionCheck {
  /** Whether no file has a problem. */
  ok: boolean;
  /** How many files were checked. */
  files: number;
  /** All findings, notes included. */
  problems: FileFinding[];
  version: 1;
}

/** An agent definition or a skill in a list. */
export interface DefinitionEntry {
  /** The name by which requests and agents use it. */
  name: string;
  /** When to use it. */
  description: string;
  /** Where it comes from. */
  origin: DefinitionSource;
  /** Its file; null for a built-in one. */
  path: string | null;
  /** Whether its name refers to it. */
  standing: DefinitionStanding;
  /** The file of the definition that shadows it, if one does. */
  shadowed_by: string | null;
  /** Whether the user trusts its content. */
  trusted: boolean;
  /** Problems and notes about its file. */
  warnings: FileFinding[];
}

/** Where a definition or a skill comes from. */
export type DefinitionSource =
  /** A file of the project, whose author may not be the user. */
  | 'project'
  /** A file of the user. */
  | 'user'
  /** Part of Posse. */
  | 'built_in';

/** Whether a definition is the one that its name refers to. */
export type DefinitionStanding =
  /** Its name refers to it. */
  | 'used'
  /** Another definition of the same name comes before it. */
  | 'shadowed'
  /** It would come before another of the same name, but the user does not trust it yet. */
  | 'waits_for_trust';

/** One ephemeral progress item. Nothing may rely on it: slow readers lose some. */
export interface Delta {
  /** The agent whose model writes. */
  agent_id: string;
  /** Its parent; null for the root. */
  parent_id: string | null;
  /** What the content is a part of. */
  part: DeltaPart;
  /** The content. */
  content: string;
  version: 1;
}

/** What a delta is a part of. */
export type DeltaPart =
  /** Text of the model's reply. */
  | 'text'
  /** The name of a tool that the model is calling. */
  | 'tool'
  /** An error of a call that may be repeated. */
  | 'error'
  /** Anything else, such as the model's thinking. */
  | 'other';

/** What all agents of one depth spent. */
export interface Depth {
  /** The distance of these agents from the root. */
  depth: number;
  /** The number of these agents. */
  agents: number;
  /** Their turns. */
  turns: number;
  /** Their tool calls. */
  tool_calls: number;
  /** The sum of the times that they have been open. */
  wall_ms: number;
  /** What they spent. */
  usage: Usage;
}

/** What all agents of one depth spent. */
export interface DepthStats {
  /** The distance of these agents from the root. */
  depth: number;
  /** The number of these agents. */
  agents: number;
  /** The number of turns. */
  turns: number;
  /** The number of tool calls. */
  tool_calls: number;
  /** How long agents were open. */
  wall_ms: number;
  /** Tokens and money. */
  usage: Usage;
}

/** The changes of a run, or of one of its agents. */
export interface DiffResult {
  /** The run's id. */
  run: string;
  /** The agent whose changes these are; the root, whose id is that of the run, stands for the run's result. */
  agent: string;
  /** The changed files, in the order of the text. */
  files: ChangedFile[];
  /** The changes as one unified diff. Bytes that are no UTF-8 are replaced. */
  text: string;
  version: 1;
}

/** An effect that has ended. Several of one agent may have run at the same time. */
export interface EffectSpan {
  /** What it is. */
  kind: EffectType;
  /** The turn, the tool, the provider or the command. */
  name: string;
  /** When it began, since the start of the run. */
  from_ms: number;
  /** When it ended, since the start of the run. */
  until_ms: number;
  /** Whether it failed. */
  failed: boolean;
  /** The number of the event that ended it. */
  seq: number;
}

/** What an effect is. */
export type EffectType =
  /** A call of the agent's model. */
  | 'model'
  /** A tool call. */
  | 'tool'
  /** A wait for the provider. */
  | 'provider_wait'
  /** A check of the agent's work. */
  | 'check'
  /** The merge of its work into the files of its parent. */
  | 'merge';

/** The end of a run or of one of its agents. */
export interface EndRun {
  /** The agent to end with its subtree, by its id or as `2.1`. Without it, the whole run ends. */
  agent?: string | null;
  /** The reason, which the journal and the agents have. */
  reason?: string | null;
}

/** One event of a journal. */
export interface Event {
  /** `event`, which distinguishes it from the outcome after it. */
  type: EventType;
  /** Its number in its run, without gaps. */
  seq: number;
  /** The agent that the event is about. */
  agent_id: string;
  /** Its kind, such as `agent.tool_finished`. */
  kind: string;
  /** When it happened. */
  at: string;
  /** What happened, in one line. */
  summary: string;
  /** The fields of this kind of event. */
  detail: unknown;
  version: 1;
}

/** A part of the journal of a run. */
export interface EventPage {
  /** The events in their order, only those that pass the filters. */
  events: Event[];
  /** The number of the last event that was looked at: the next page begins after it. */
  after: number;
  /** Whether the journal had more events when this page was made. */
  more: boolean;
  version: 1;
}

/** Distinguishes an event from the outcome after it. */
export type EventType =
  /** The object is an event of a journal. */
  | 'event';

/** The position of an agent in its tree. */
export interface ExecutionContext {
  /** 0 for the root. */
  depth: number;
  /** Maximum depth of an agent in this tree. */
  max_depth: number;
  /** The parent's id. None for the root. */
  parent_task_id: AgentId | null;
  /** The root's id. None for the root itself. */
  root_task_id: AgentId | null;
}

/** How an agent is executed. */
export interface ExecutionTerms {
  /** The definition's name. */
  definition: string;
  /** The skill it was forked with. */
  skill: string | null;
  /** `provider/model`. */
  model: string;
  /** Sampling temperature. */
  temperature: number | null;
  /** Nucleus sampling. */
  top_p: number | null;
  /** Turns per attempt, the report turn included. None means no limit. */
  max_turns: number | null;
  /** Limit of one turn. */
  turn_timeout_ms: number | null;
  /** Limit of one attempt's working time. */
  attempt_timeout_ms: number | null;
  /** Maximum time that a call may produce no output. */
  idle_timeout_ms: number;
  /** Further attempts after a failed one. */
  max_retries: number;
  /** How often in a row the same call may fail before the attempt ends. */
  max_retries_per_tool: number;
  /** Whether the child closes by itself once integrated. */
  close_on_completion: boolean;
  /** Whether the conversation starts with the parent's. */
  share_history: boolean;
  /** Further text for the child. */
  extra_context: string | null;
}

/** Why an agent may or may not execute an operation. */
export interface Explanation {
  /** The operation, as `tool:specifier`. */
  operation: string;
  /** The strictest decision of all layers. */
  decision: Decision;
  /** Why, in words. */
  because: string;
  /** The layer that decides. */
  layer: string | null;
  /** The rule of that layer, if a rule decides. */
  rule: Rule | null;
  /** The decision of every layer. */
  layers: LayerDecision[];
  /** A limit of the operation beyond the rules, in words. */
  note: string | null;
  /** The same for programs. */
  beyond_rules: BeyondRules | null;
  /** Whether an `ask` is refused, because the agent is a sub-agent and its run does not let sub-agents ask. */
  ask_is_refused: boolean;
  /** Whether the path is that of a well-known secret file that was kept out of the workspace. */
  kept_out: boolean;
  /** What limits a command; null for other tools, and for a command that is denied. */
  command: CommandLimits | null;
  /** The places in the settings of the hooks that run before the operation, and can block it. */
  hooks: string[];
  /** These hooks with their commands, and those of the project that do not run because you do not trust its settings. */
  hook_commands: HookCommand[];
  version: 1;
}

/** The bundle of a run. */
export interface ExportResult {
  /** The run's id. */
  run: string;
  /** The bundle's file. */
  path: string;
  /** Its size. */
  bytes: number;
  /** The hash of the run's last event. */
  head: string;
  /** The number of events. */
  events: number;
  /** The number of blobs that events name. */
  blobs: number;
  /** How many files the run began with. */
  files: number;
  /** The size of these files. */
  file_bytes: number;
  /** The largest of these files with their sizes, the largest first. */
  large_files: [string, number][];
  /** How many secrets were replaced by a mark. */
  secrets: number;
  /** Where secrets were replaced, and what they looked like: a bounded list. */
  secret_places: string[];
  /** Files that the bundle omits, each with the reason. */
  left_out: string[];
  /** How many agent definitions the run did not use; the bundle omits their texts. */
  unused_agents: number;
  /** How many skills the run did not use; the bundle omits their texts. */
  unused_skills: number;
  /** Whether the run began with its own files. If not, a replay reads its directory at that time. */
  has_base: boolean;
  version: 1;
}

/** A child that failed. */
export interface FailedAgent {
  /** The child's id. */
  id: string;
  /** The code of the failure, for programs. */
  code: Code;
  /** The reason in words. */
  reason: string;
}

/** Turns, calls, time and usage. */
export interface FigureValues {
  /** The number of turns. */
  turns: number;
  /** The number of tool calls. */
  tool_calls: number;
  /** How long agents were open. */
  wall_ms: number;
  /** Tokens and money. */
  usage: Usage;
}

/** The change of one file. */
export interface FileDiff {
  /** The run's id. */
  run: string;
  /** The agent whose change this is; the root, whose id is that of the run, stands for the run's result. */
  agent: string;
  /** The path before the change; null if the file was added. */
  old_path: string | null;
  /** The path after the change; null if the file was deleted. */
  new_path: string | null;
  /** How many lines were added; null if the file is not text. */
  added: number | null;
  /** How many lines were removed; null if the file is not text. */
  removed: number | null;
  /** The part of the unified diff that is about this file. */
  text: string;
  version: 1;
}

/** A finding about a definition or skill file. */
export interface FileFinding {
  file: string;
  /** The line, from 1; null if the finding is about the whole file. */
  line: number | null;
  level: FindingLevel;
  problem: string;
  /** What the user can do about it. */
  fix: string | null;
}

/** What happened to a file. */
export type FileStatus =
  /** It did not exist before. */
  | 'added'
  /** Its content or its mode changed. */
  | 'changed'
  /** It has another path than before. */
  | 'renamed'
  /** It no longer exists. */
  | 'deleted';

/** The outcome of an agent in its closed event. */
export type FinalStatus =
  /** Integration passed. */
  | 'completed'
  /** Anything else. */
  | 'failed';

/** How important a finding about a file is. */
export type FindingLevel =
  /** For information. */
  | 'note'
  /** Something in the file is wrong. */
  | 'problem';

/** What was removed from the state directory. */
export interface GcResult {
  /** Whether nothing was removed, because a dry run was requested. */
  dry_run: boolean;
  /** The paths and refs that were removed, or would be removed. */
  removed: string[];
  /** What was not removed. */
  kept: KeptItem[];
  /** The bytes on disk that were freed, or would be freed. */
  freed_bytes: number;
  version: 1;
}

/** The part of a contract that states what the agent may do (its `permissions`). */
export interface Grant {
  /** The tools that the agent is offered. A call to any other is denied. */
  allowed_tools: ToolSet;
  /** Rules of this contract. The last match wins. */
  rules: Rules;
  /** Whether the agent may have children. */
  can_spawn_children: boolean;
  /** How many levels of agents may be below the agent. */
  max_delegation_depth: number;
  /** Whether the agent may share its conversation with a child. */
  may_share_history: boolean;
  /** How an `ask` is decided. */
  on_ask: OnAsk;
}

/** A hook that is called before an operation, or would be. */
export interface HookCommand {
  /** Its place in the settings. */
  origin: string;
  /** The command. */
  command: string;
  /** Whether it runs: a hook of a project's settings runs only if you trust them. */
  runs: boolean;
}

/** A file that `init` writes. */
export interface InitFile {
  /** The path of the file. */
  path: string;
  /** Whether it was written; otherwise it existed and was not changed. */
  written: boolean;
}

/** The files that `init` writes into a project. */
export interface InitResult {
  /** The files, in the order of writing. */
  files: InitFile[];
  version: 1;
}

/** An item that was not removed, with the reason. */
export interface KeptItem {
  /** A description of the item. */
  what: string;
  /** The reason. */
  why: string;
}

/** A model with a known price. */
export interface KnownModel {
  /** The full name, `provider/model`. */
  name: string;
  /** The price of input, in dollars for a million tokens. */
  input_usd: number;
  /** The price of output, in dollars for a million tokens. */
  output_usd: number;
  /** How many tokens a conversation may have; null if that is not known. */
  context_tokens: number | null;
}

/** The decision of one permission layer about an operation. */
export interface LayerDecision {
  /** The name of the layer. */
  layer: string;
  /** Null if the layer does not decide about the operation. */
  decision: Decision | null;
  /** What in the layer decides. */
  source: string | null;
}

/** One check of the machine. */
export interface MachineCheck {
  /** What was checked. */
  name: string;
  /** Whether the check found something missing. */
  status: CheckStatus;
  /** What was found. */
  value: string;
  /** What the user can do about it. */
  remedy?: string | null;
}

/** What the machine offers to runs. */
export interface MachineReport {
  /** Whether everything that commands of agents need is available. */
  ok: boolean;
  /** The version of Posse. */
  posse: string;
  /** The version of the kernel. */
  kernel: string;
  /** Whether Posse runs as root. */
  root: boolean;
  /** The isolation of the sandbox; null if none can be created. */
  sandbox: string | null;
  /** The results of all checks. */
  checks: MachineCheck[];
  version: 1;
}

/** The change of a sub-agent that was not merged into the files of its parent. */
export interface MergeConflict {
  /** The sub-agent. */
  agent: string;
  /** Its parent, whose files are the other side. */
  parent: string;
  /** The first files that both changed. */
  files: ConflictedFile[];
  /** The number of further files. */
  more_files: number;
}

/** Whether a definition is for roots or for children. */
export type Mode =
  /** Only as a root; never offered as a child. */
  | 'primary'
  /** As a child or as a root. */
  | 'all';

/** A short name of a model. */
export interface ModelAlias {
  /** The short name. */
  name: string;
  /** The model that it means. */
  model: string;
}

/** The providers, the models with known prices, and the short names of models. */
export interface ModelList {
  /** The providers, the preferred ones first. */
  providers: ModelProvider[];
  /** The models with known prices, by name. Others can be used too. */
  models: KnownModel[];
  /** The short names. */
  aliases: ModelAlias[];
  /** The date of the built-in prices. */
  prices_taken: string;
  version: 1;
}

/** A provider of models. */
export interface ModelProvider {
  /** The provider's name, the first part of the names of its models. */
  name: string;
  /** Whether a run could call its models: its base URL is known, and its key if it needs one. */
  usable: boolean;
  /** Where its key comes from; null if there is no key. The key itself is never printed. */
  key: string | null;
  /** What is missing, or wrong. */
  problem: string | null;
  /** The model of a run that names none. */
  default_model: string | null;
}

export type ObjectId = string;

/** How an `ask` of a child is decided. */
export type OnAsk =
  /** It is a deny: sub-agents cannot request permission. */
  | 'deny'
  /** It waits for a user, durably. */
  | 'escalate';

/** How a run ended. */
export interface Outcome {
  /** `result`, which distinguishes it from the events before it. */
  type: OutcomeType;
  /** The run's id. */
  run: string;
  /** `completed`, `failed` or `cancelled`. */
  status: RunStatus;
  /** The root's report; if the run failed without one, the reason. */
  text: string;
  /** The code of the failure or cancellation, for programs. */
  code?: Code | null;
  /** The reason of the failure or cancellation in words. */
  reason?: string | null;
  /** What all agents spent. */
  usage: Usage;
  /** Whether it is a replay: nothing was spent, and `usage` is that of the recorded run. */
  replay?: boolean;
  /** How a replay compares with the recorded run. */
  replay_verdict?: ReplayVerdict | null;
  /** How long the run took. */
  elapsed_ms: number;
  /** The turns of all agents. */
  turns: number;
  /** The number of agents in the run. */
  agents: number;
  /** The children that failed. */
  failed: FailedAgent[];
  /** Whether the root ran out of turns. */
  turns_exhausted: boolean;
  /** The sub-agents that completed, but ran out of turns. */
  turn_limited: string[];
  /** The first operations that were refused. */
  refused: RefusedCall[];
  /** How many operations were refused in total. */
  refused_count: number;
  /** The sub-agents that completed and can change files, but changed none. */
  unchanged: string[];
  /** The run's changes to files, if there are any. */
  result?: RunResult | null;
  /** The disk usage of its workspaces, if it changed files. */
  disk_bytes?: number | null;
  /** Whether the result was applied to the user's directory, if that was requested. */
  applied?: boolean | null;
  /** The exit code of the command. */
  exit: number;
  version: 1;
}

/** Distinguishes an outcome from the events before it. */
export type OutcomeType =
  /** The object is the outcome of a run. */
  | 'result';

/** The results that an agent returns. */
export interface OutputTerms {
  /** The report's format. */
  report_format: ReportFormat;
  /** The path of the report's file beneath the run's state directory. `<idx>` is the child's place. */
  report_path_pattern: string;
  /** JSON Schema that the final answer must satisfy. */
  result_schema: Record<string, unknown> | null;
}

/** The parent's side of a contract. */
export interface ParentTerms {
  /** The id of the run. */
  run_id: RunId;
  /** The id of the parent. The root names itself. */
  agent_id: AgentId;
  /** The parent's reply that requested this child. */
  message_id: string | null;
  /** The child's number minus one; in a plan the step's position. */
  step_idx: number;
  /** The run's request. */
  task_prompt: string;
  /** The plan's goal, or the request's first line. */
  goal_summary: string;
  /** The closed child whose conversation this one continues. */
  continues: AgentId | null;
  /** The failed child that this one repairs. */
  repairs: AgentId | null;
}

/** `tool`, `tool:specifier` with `*` and `**`, or `*` for every tool */
export type Pattern = string;

/** The result of checking a plan. */
export interface PlanCheck {
  /** Whether the plan can be executed. If not, only `problems` is set. */
  ok: boolean;
  goal?: string | null;
  /** The number of steps. */
  steps?: number | null;
  /** The titles of its steps in an order of execution. */
  order?: string[] | null;
  /** The titles of the steps that can run at the same time, in the order of execution. */
  waves?: string[][] | null;
  problems: PlanProblem[];
  version: 1;
}

/** A problem in a plan. */
export interface PlanProblem {
  /** The line of the file, from 1. */
  line: number | null;
  /** The number of the step, from 1. */
  step: number | null;
  /** The step's title. */
  title: string | null;
  /** The field of the plan or of the step. */
  field: string | null;
  /** The description of the problem. */
  problem: string;
}

/** A file that an apply would write or remove. */
export interface PlannedFile {
  /** Its path in the user's directory. */
  path: string;
  /** What would be done to it. */
  write: PlannedWrite;
}

/** A step of the plan that a run executes. */
export interface PlannedStep {
  /** Its title, which no other step of the plan has. */
  title: string;
  /** The titles of the steps that come before it. */
  depends_on: string[];
  /** Whether its failure fails the run. */
  required: boolean;
  /** The agent that executes it, once there is one. */
  agent: string | null;
  /** The newest agent that repairs its work. */
  repair: string | null;
  /** Why no agent was created for it. */
  refused: Code | null;
}

/** What an apply would do to a file. */
export type PlannedWrite =
  /** The file does not exist yet. */
  | 'add'
  /** The file is replaced by the run's. */
  | 'change'
  /** The file gets the run's change beside the user's. */
  | 'merge'
  /** The file is removed. */
  | 'remove';

/** An error as a client reads it. */
export interface Problem {
  /** The status of the response. */
  status: number;
  /** The meaning of the status. */
  title: string;
  /** What is wrong with this request. */
  detail: string;
  /** The stable code. */
  code: ProblemCode;
  /** The field, parameter or header that is wrong. */
  field?: string | null;
  /** What the client can do about it. */
  remedy?: string | null;
}

/** The stable codes of errors, for programs. The codes of failed agents and calls are in the objects about them. */
export type ProblemCode =
  /** The token is missing, wrong, revoked or expired. */
  | 'TOKEN_REFUSED'
  /** The request names a host that is not this machine. */
  | 'HOST_REFUSED'
  /** A page of another origin sent the request. */
  | 'ORIGIN_REFUSED'
  /** The token does not have the right to this operation. */
  | 'RIGHT_MISSING'
  /** The token may not use this directory. */
  | 'DIR_REFUSED'
  /** The token sends more requests, or has more streams, than it may. */
  | 'TOO_MANY'
  /** There is nothing at this path. */
  | 'NOT_FOUND'
  /** The path does not have this method. */
  | 'METHOD_NOT_ALLOWED'
  /** The body is too large. */
  | 'TOO_LARGE'
  /** The body did not arrive in time. */
  | 'TOO_SLOW'
  /** The body is not in the form of the request. */
  | 'INVALID_REQUEST'
  /** A parameter or a header is unknown or ill-typed. */
  | 'INVALID_PARAMETER'
  /** A cursor or an event number does not exist. */
  | 'INVALID_CURSOR'
  /** What the request asks for is not possible with the present settings, definitions or models. */
  | 'REFUSED'
  /** A key of a model provider is missing or malformed. */
  | 'MODEL_KEY_MISSING'
  /** There is no such run. */
  | 'UNKNOWN_RUN'
  /** The run was removed. */
  | 'REMOVED_RUN'
  /** The run has no such agent. */
  | 'UNKNOWN_AGENT'
  /** The run has ended, so it accepts no commands. */
  | 'RUN_ENDED'
  /** The agent has ended, so it reads no messages. */
  | 'AGENT_ENDED'
  /** The run or the agent has not ended. */
  | 'NOT_ENDED'
  /** The run or the agent failed or was cancelled, so that its changes may be incomplete. */
  | 'NOT_COMPLETED'
  /** There is nothing of this kind yet, such as a report. */
  | 'NOT_THERE'
  /** Another process executes the run. */
  | 'EXECUTED_ELSEWHERE'
  /** This process does not execute the run. */
  | 'NOT_EXECUTED_HERE'
  /** No call waits for this answer, or no longer. */
  | 'NOT_ASKED'
  /** The user's files were changed since, so nothing was written. */
  | 'CONFLICT'
  /** The idempotency key was used for another request. */
  | 'KEY_CONFLICT'
  /** The server executes as many runs, or has as many streams, as it may. */
  | 'BUSY'
  /** The server drains and accepts no requests. */
  | 'DRAINING'
  /** The operation failed. */
  | 'FAILED';

/** What a file that needs trust is for. */
export type ProjectFileKind =
  /** Settings of the project. */
  | 'settings'
  /** An agent definition. */
  | 'agent'
  /** A skill. */
  | 'skill'
  /** Servers that provide tools. */
  | 'servers';

/** A settings file of the project. */
export interface ProjectSettingsFile {
  /** Its path. */
  path: string;
  /** Whether the user trusts it. */
  trust: TrustState;
  /** Whether it can be read; a file that cannot is ignored. */
  usable: boolean;
}

/** A call that waits for an approver. */
export interface Question {
  /** The agent that asks. */
  agent: string;
  /** The id of its call. */
  call_id: string;
  /** The operation of the call, as `tool:specifier`. */
  operation: string;
  /** The name of the called tool. */
  tool: string;
  /** The arguments of the call. */
  arguments: unknown;
  /** The layer that asks, and why. */
  because: string;
  /** The hash of tool, arguments and contract that an answer is bound to. */
  approval: string;
  /** When the question was asked. */
  asked_at: string;
  /** The literal that the answer "always" would store; null if that would change nothing. */
  literal: string | null;
  version: 1;
}

/** The decision about a question. */
export type QuestionDecision =
  /** The call may run. */
  | 'allow'
  /** The call may run, and so may the same operation in later runs of the same directory. */
  | 'always'
  /** The call must not run. */
  | 'deny';

/** The questions that wait for an approver. */
export interface QuestionList {
  /** The questions, oldest first in each run. */
  questions: Question[];
  version: 1;
}

/** What refused an operation. */
export type RefusedBy =
  /** A rule, a definition or a contract denies it. */
  | 'rule'
  /** It needs an approval, and no user could be asked. */
  | 'no_approver'
  /** A user denied it. */
  | 'user'
  /** A hook denied it. */
  | 'hook'
  /** The agent does not own the path. */
  | 'ownership'
  /** The agent does not have the tool, or may not have children. */
  | 'grant'
  /** Something that no rule allows: a protected name, a path outside of the workspace, a host that tools may not reach. */
  | 'policy'
  /** This machine has no sandbox for the command. */
  | 'sandbox';

/** An operation that was refused. */
export interface RefusedCall {
  /** The agent that requested it. */
  agent: string;
  /** The operation, as `tool:specifier`; only the tool if the specifier is unknown. */
  operation: string;
  /** The code of the call's result. */
  code: Code;
  /** What refused it. */
  by: RefusedBy;
  /** The source of the refusal in words. */
  reason: string;
  /** When it was refused. */
  at: string;
  /** The number of the event that ended the call. */
  seq: number;
}

/** A replay of a run, whose terms and files are those of the recorded run. */
export interface ReplayRun {
  /** Operations that are approved in advance, such as `network`. Those of the recorded run do not apply. */
  allow?: string[];
  /** The replay's own rules; the last one that matches an operation wins. */
  rules?: RunRule[];
}

/** How the model requests of a replay compare with those of the recorded run. */
export interface ReplayVerdict {
  /** How many requests were the recorded ones. */
  same: number;
  /** How many requests were recorded; null if the recording is gone. */
  recorded: number | null;
  /** Whether a request differed, which ended the replay. */
  differs: boolean;
}

/** The format of a report. */
export type ReportFormat =
  /** Markdown text. */
  | 'markdown';

/** The report of a run, or of one of its agents. */
export interface ReportResult {
  /** The run's id. */
  run: string;
  /** The agent; the root, whose id is that of the run, stands for the run. */
  agent: string;
  /** The state of its lifecycle. */
  state: AgentState;
  /** How it ended. */
  final_status: FinalStatus | null;
  /** `integrated`, or the kind of its failure. */
  close_reason: CloseReason | null;
  /** Whether its turn limit cut off its work. */
  turns_exhausted: boolean;
  /** The report, as Markdown; if the agent failed, the reason and its last text. */
  report: string;
  /** The checks of its work, in the order of execution. */
  checks: CheckResult[];
  /** The folder with the reports of sub-agents, its own and those beneath it; null if there are none. */
  dir: string | null;
  version: 1;
}

/** A tool call that a reply requests. */
export interface RequestedCall {
  /** The id of the call. */
  call_id: string;
  /** The name of the tool. */
  tool: string;
  /** Its input; a text that is no JSON is as the model wrote it. */
  input: unknown;
}

/** Another try at the work of a run or of an agent that did not complete. */
export interface RetryRun {
  /** Another definition for the root of the new run. By default it is that of the earlier agent. */
  agent?: string | null;
  /** Operations that are approved in advance, such as `network`. */
  allow?: string[];
  /** The run's own rules; the last one that matches an operation wins. */
  rules?: RunRule[];
  /** The base URL of the model's provider. By default it is that of the earlier run. */
  base_url?: string | null;
  /** Settings of this run by their names. Model and limits are those of the earlier run unless they are named. */
  settings?: {
    /** The model, as `provider/name`; `scripted/<file>` takes replies from a YAML script, `replay/<run>` and `replay/<file>.posse` from a recorded run */
    model?: string | number | boolean;
    /** Deepest level of sub-agents; 0 allows none */
    'agent.max_depth'?: string | number | boolean;
    /** Maximum number of turns of the root, halved with every level below it; `none` for no limit */
    'agent.max_turns'?: string | number | boolean;
    /** Maximum number of agents in the whole tree; `none` for no limit */
    'agent.max_agents'?: string | number | boolean;
    /** Maximum number of tokens of the whole tree; `none` for no limit */
    'agent.max_tokens'?: string | number | boolean;
    /** Maximum cost of the whole tree, in dollars; `none` for no limit */
    'agent.max_usd'?: string | number | boolean;
    /** Maximum wall time of the run, such as 90s, 30m or 2h; `none` for no limit */
    'agent.max_time'?: string | number | boolean;
    /** Maximum number of calls at once; `none` for no limit */
    'agent.parallel'?: string | number | boolean;
    /** Let agents share their conversation with the sub-agents that they start */
    'agent.may_share_history'?: string | number | boolean;
    /** For embedders: the events of an agent as a task (`posse::Posse::task_events`) include those of the sub-agents below it */
    'agent.include_sub_agent_events'?: string | number | boolean;
    /** What happens to a question that no user can answer at once: `deny` refuses the call, `escalate` lets it wait for an approver */
    on_ask?: string | number | boolean;
  };
}

/** Operations that are no longer allowed in a directory without a question. */
export interface RevokedApprovals {
  /** The whole path of the directory. */
  dir: string;
  /** The operations that later runs ask about again. */
  operations: string[];
  version: 1;
}

/** `pattern -> decision`. */
export interface Rule {
  /** The operations that the rule matches. */
  pattern: Pattern;
  /** The decision for these operations. */
  decision: Decision;
}

/** What a rule of a run decides. A rule cannot allow: that is an approval. */
export type RuleDecision =
  /** A client is asked first. */
  | 'ask'
  /** It is refused. */
  | 'deny';

export type Rules = Rule[];

/** A run with its agents. */
export interface RunDetail {
  /** The run's id. */
  run: string;
  /** The run's current status. */
  status: RunStatus;
  /** The first line of its request. */
  request: string;
  /** Its working directory. */
  dir: string;
  /** The model of its root. */
  model: string;
  /** When it started. */
  created_at: string;
  /** When it ended. */
  ended_at: string | null;
  /** Whether it ended because its root or a required sub-agent ran out of turns. */
  turns_exhausted: boolean;
  /** The agent of an earlier run that it continues or retries. */
  continues?: string | null;
  /** Whether it retries the work of that agent, instead of continuing its conversation. */
  retry?: boolean;
  /** The recorded run or the bundle that it replays, if it is a replay. */
  replay_of?: string | null;
  /** How long it took, or has been running; of an interrupted run, for how long its process is known to have lived. */
  elapsed_ms: number;
  /** The number of the last event that this object knows: a reader that follows the run continues after it. */
  events: number;
  /** What all agents spent. */
  usage: Usage;
  /** The first operations that were refused. */
  refused: RefusedCall[];
  /** How many operations were refused in total. */
  refused_count: number;
  /** Its agents in the order of their creation, the root first. */
  agents: Agent[];
  /** The steps of its plan; empty if it has none. */
  plan?: PlannedStep[];
  /** What the agents of each depth spent. */
  by_depth: Depth[];
  /** The run's changes to files, if it has ended and made any. */
  result?: RunResult | null;
  /** The changes of sub-agents that were not merged. */
  conflicts?: MergeConflict[];
  /** The disk usage of the run, without the journal. */
  disk_bytes?: number | null;
  version: 1;
}

export type RunId = string;

/** A part of the list of runs. */
export interface RunPage {
  /** The runs, newest first. */
  runs: RunSummary[];
  /** The cursor of the next page; null on the last one. */
  next: string | null;
  version: 1;
}

/** A started run that another process executes. */
export interface RunReference {
  /** The run's id. */
  run: string;
  version: 1;
}

/** The result of a run: its changes to the files it started from. */
export interface RunResult {
  /** The commit with the result. */
  commit: ObjectId;
  /** The result's branch in the user's repository, if there is one. */
  branch?: string | null;
  /** How many files differ from the snapshot. */
  files: number;
  /** Why there is no branch although there is a repository. */
  problem?: string | null;
  /**
   * Changes of the root that are not in the result, because no agent may make them: each path with the reason. The
   * list is bounded. The root's salvage has the changes.
   */
  left_out?: string[];
  /**
   * Files of the result that agents or unattended programs obey, such as `AGENTS.md`. Users should read them before
   * they apply the result. The list of paths is bounded.
   */
  instructions?: string[];
}

/** A rule of the run. */
export interface RunRule {
  /** The operations, such as `bash:git *` or `write:src/**`. */
  pattern: string;
  /** What is decided about them. */
  decision: RuleDecision;
}

/** What one run spent. */
export interface RunStats {
  /** The run's id. */
  run: string;
  /** The run's current status. */
  status: RunStatus;
  /** Whether it is a replay: nothing was spent, and the sums are those of the recorded run. */
  replay: boolean;
  /** The sum over all agents. */
  total: Total;
  /** A sum for each model. */
  by_model: Total[];
  /** A sum for each depth. */
  by_depth: DepthStats[];
  /** What each agent spent. */
  agents: AgentStats[];
  version: 1;
}

/** The status of a run. */
export type RunStatus =
  /** A process executes it. */
  | 'running'
  /** It has not ended, and no process executes it. */
  | 'interrupted'
  /** It ended with an accepted result. */
  | 'completed'
  /** It ended without an accepted result. */
  | 'failed'
  /** It was cancelled. */
  | 'cancelled';

/** A run in a list. */
export interface RunSummary {
  /** The run's id. */
  run: string;
  /** The run's current status. */
  status: RunStatus;
  /** The first line of its request. */
  request: string;
  /** The definition of its root. */
  definition: string;
  /** The model of its root. */
  model: string;
  /** Its working directory. */
  dir: string;
  /** The number of agents in the run. */
  agents: number;
  /** The number of events in its journal. */
  events: number;
  /** When it started. */
  created_at: string;
  /** When it ended. */
  ended_at: string | null;
  /** How long it took, or has taken so far; of an interrupted run, for how long its process is known to have lived. */
  wall_ms: number;
  /** What all agents spent. */
  usage: Usage;
  /** Whether it is a replay: nothing was spent, and `usage` is that of the recorded run. */
  replay?: boolean;
  /** The id of the process that executes it; null if none does, or if it is on another machine. */
  pid: number | null;
  /** The label of the process that executes it, on any machine; null if none does. */
  holder: string | null;
  /** How many calls wait for an approver. */
  waiting: number;
  /** Whether it ended because its root or a required sub-agent ran out of turns. */
  turns_exhausted: boolean;
  /** The agent of an earlier run that it continues or retries. */
  continues?: string | null;
  /** Whether it retries the work of that agent, instead of continuing its conversation. */
  retry?: boolean;
  version: 1;
}

/** When each agent of a run did what. */
export interface RunTimeline {
  /** The run's id. */
  run: string;
  /** When the run started: all other times count from here. */
  started_at: string;
  /** How long it took, or has been running. */
  elapsed_ms: number;
  /** The number of the last event that this object knows. */
  events: number;
  /** A track for each agent in the order of their creation, the root first. */
  tracks: AgentTrack[];
  version: 1;
}

/** Salvaged work of one attempt. */
export interface Salvage {
  /** The agent that did the work. */
  agent: string;
  /** The number of its attempt. */
  attempt: number;
  /** When the work was kept. */
  at: string;
  /** The commit with the work; null if the workspace could not be read, and is kept unchanged. */
  commit: string | null;
  /** How many files differ from the agent's base; null if the salvaged work was removed since. */
  files: number | null;
  /** The commit with the workspace's `.git` as plain files; null if the agent changed nothing in it. */
  git: string | null;
  /** What is not included, each file with the reason: a bounded list. */
  left_out: string[];
  /** The total number of omitted files. */
  left_out_count: number;
  /** Why the workspace could not be read. */
  problem: string | null;
  version: 1;
}

/** The salvaged work of a run. */
export interface SalvageList {
  /** The attempts with their work, oldest first. */
  salvages: Salvage[];
  version: 1;
}

/** A message to an agent. */
export interface SendMessage {
  /** The text, which the agent reads before its next turn. */
  text: string;
}

/** A message that was sent to an agent. */
export interface SentMessage {
  /** The run's id. */
  run: string;
  /** The agent that reads the message before its next turn. */
  agent: string;
  /** Whether a process executes the run and so delivers the message now; otherwise it is saved until the run is resumed. */
  carried: boolean;
  version: 1;
}

/** A directory in which clients of a server start runs. */
export interface ServerProject {
  /** Its whole path on the server's machine. */
  dir: string;
  /** The last part of the path. */
  name: string;
  /** Whether a run without a directory starts there. */
  is_default: boolean;
}

/** The projects in which a client may start runs. */
export interface ServerProjectList {
  /** The projects. */
  projects: ServerProject[];
  version: 1;
}

/** Whose token a client sends, and what the server knows. */
export interface ServerSession {
  /** The name of the token. */
  token: string;
  /** The tenant whose runs the client sees. */
  tenant: string;
  /** What the client may do. */
  rights: TokenRight[];
  /** When the token expires; null if it does not. */
  expires_at: string | null;
  /** The version of the server. */
  server_version: string;
  /** The projects in which the client may start runs. */
  projects: ServerProject[];
  version: 1;
}

/** A setting with every value that was set for it. */
export interface Setting {
  /** Its key, with dots. */
  key: string;
  /** The effective value, as a file would have it; for a secret where it is set, null for what is not one value. */
  value: unknown;
  /** The default in words, if it is not one value. */
  words?: string | null;
  /** Where the value is set. */
  origin: string;
  /** The layer that sets it. */
  from: SettingLayer;
  /** Values that have no effect. */
  unused: UnusedValue[];
}

/** Which layer a setting's value comes from. */
export type SettingLayer =
  /** No layer sets it. */
  | 'default'
  /** The user's file. */
  | 'user'
  /** A file of the project. */
  | 'project'
  /** An environment variable. */
  | 'variable'
  /** A flag of the command. */
  | 'flag';

/** All settings in effect for a directory. */
export interface SettingsList {
  /** The user's file, whether it exists or not. */
  user_file: string | null;
  /** The project's files, the nearest first. */
  project_files: ProjectSettingsFile[];
  /** Every key in the order of the documentation. */
  settings: Setting[];
  /** Warnings about them. */
  notes: string[];
  version: 1;
}

/** A skill and how it is used: an agent loads it, or a sub-agent executes it. */
export interface Skill {
  /** The name, `[a-z0-9_-]`. */
  name: string;
  /** When to use it, as a model reads it. */
  description: string;
  /** The instructions as written in the file. */
  instructions: string;
  /** Whether a new sub-agent executes it, instead of the agent that requests it. */
  fork: boolean;
  /** The definition of that sub-agent. None means `general`. */
  agent: string | null;
  /** The tools of that sub-agent. None means those of its definition. */
  tools: string[] | null;
  /** Rules that narrow those tools: part of the sub-agent's contract, beside the rules of its definition. */
  rules: Rule[];
  /** The skills that its agent may delegate to. None means every skill that its grant allows. */
  sub_agents: string[] | null;
  /** The model of that sub-agent. None means the definition's, or the parent's. */
  model: string | null;
  /** Sampling temperature. */
  temperature: number | null;
  /** The turn limit of its sub-agent at the first level. It replaces the definition's. */
  max_iterations: number | null;
  /** Maximum depth of the tree. Below the root it can only lower the limit. */
  max_depth: number | null;
  /** How often in a row the same call may fail. */
  max_retries_per_tool: number | null;
  /** Limit of one turn. */
  turn_timeout_ms: number | null;
  /** Whether a subscriber of the parent's task receives the sub-agent's events too. */
  include_sub_agent_events: boolean;
  /** Whether models see it in their prompts and may ask for it. */
  for_models: boolean;
  /** Whether users may ask for it by `/name`. */
  for_people: boolean;
  /** A hint for users: the arguments after its name. */
  argument_hint: string | null;
  /** Whether its sub-agent works in the background. */
  background: boolean;
  /** Decides calls of its sub-agent's tools that no rule matches. */
  default: Trust;
  /** The directory with its files. None if it is one file, or if the directory is on another machine. */
  dir: string | null;
  /**
   * The project that contains those files. Files that git ignores there are not read. None if they are the user's
   * own, or in a folder that git ignores and the user trusts.
   */
  project?: string | null;
  /** The path of that directory for commands. None if they do not see it. */
  shown_dir?: string | null;
}

/** One skill. */
export interface SkillDetail {
  /** The skill as its file describes it. */
  skill: Skill;
  /** Where it comes from. */
  origin: DefinitionSource;
  /** Its file. */
  path: string;
  /** Whether the user trusts its content. */
  trusted: boolean;
  /** A model that its file names but that is not used. */
  unused_model: string | null;
  /** Problems and notes about its file. */
  warnings: FileFinding[];
  /** The definition of a forked skill's sub-agent in a run; null if the skill is not forked. */
  definition: Definition | null;
  /** The file whose text a run adds to the prompt. */
  agents_md: string | null;
  /** The decision of a rule about its use in any run here; null if no rule matches. */
  decision: Decision | null;
  /** The rule that decides, in words. */
  because: string | null;
  version: 1;
}

/** The skills of a directory. */
export interface SkillList {
  /** In the order of their search directories. */
  skills: DefinitionEntry[];
  /** Why files that look like skills cannot be used. */
  unusable: FileFinding[];
  version: 1;
}

/**
 * A run to start. Omitted fields come from the user's settings, from what the project may choose, and from
 * the defaults.
 */
export interface StartRun {
  /** What to do. `/NAME` at its beginning calls the skill of that name. Optional with a plan or a skill. */
  request?: string | null;
  /** Text beside the request, such as the output of a program. The root reads it after the request. */
  context?: string | null;
  /** The working directory, on the server's machine. By default it is the project that the server was started in. */
  dir?: string | null;
  /** The name of the root's definition. */
  agent?: string | null;
  /** The name of the skill that executes the request. */
  skill?: string | null;
  /** The plan that is executed: an object, or YAML as a text. */
  plan?: unknown;
  /** Operations that are approved in advance, such as `network`. */
  allow?: string[];
  /** The run's own rules; the last one that matches an operation wins. */
  rules?: RunRule[];
  /** The base URL of the model's provider. */
  base_url?: string | null;
  /** Settings of this run by their names, such as `agent.max_usd`. */
  settings?: {
    /** The model, as `provider/name`; `scripted/<file>` takes replies from a YAML script, `replay/<run>` and `replay/<file>.posse` from a recorded run */
    model?: string | number | boolean;
    /** Deepest level of sub-agents; 0 allows none */
    'agent.max_depth'?: string | number | boolean;
    /** Maximum number of turns of the root, halved with every level below it; `none` for no limit */
    'agent.max_turns'?: string | number | boolean;
    /** Maximum number of agents in the whole tree; `none` for no limit */
    'agent.max_agents'?: string | number | boolean;
    /** Maximum number of tokens of the whole tree; `none` for no limit */
    'agent.max_tokens'?: string | number | boolean;
    /** Maximum cost of the whole tree, in dollars; `none` for no limit */
    'agent.max_usd'?: string | number | boolean;
    /** Maximum wall time of the run, such as 90s, 30m or 2h; `none` for no limit */
    'agent.max_time'?: string | number | boolean;
    /** Maximum number of calls at once; `none` for no limit */
    'agent.parallel'?: string | number | boolean;
    /** Let agents share their conversation with the sub-agents that they start */
    'agent.may_share_history'?: string | number | boolean;
    /** For embedders: the events of an agent as a task (`posse::Posse::task_events`) include those of the sub-agents below it */
    'agent.include_sub_agent_events'?: string | number | boolean;
    /** What happens to a question that no user can answer at once: `deny` refuses the call, `escalate` lets it wait for an approver */
    on_ask?: string | number | boolean;
  };
}

/** A run that was started or is executed again. */
export interface StartedRun {
  /** The run's id. */
  run: string;
  /** What the user should know about the request, its settings and its definitions. */
  notes: string[];
  version: 1;
}

/** The work of a contract. */
export interface StepTerms {
  /** Three to five words, for display. */
  title: string;
  /** The child's prompt. */
  description: string;
  /** The success criteria. */
  success_criteria: Criterion[];
  /** Paths the agent may change: literal, or `dir/**`. Empty: all that its parent owns. */
  owns: string[];
  /** Whether its failure fails the run. */
  required: boolean;
}

/** An operation that is always allowed in the runs of a directory. */
export interface StoredApproval {
  /** The whole path of the directory. */
  dir: string;
  /** The allowed operation, as a pattern without wildcards. */
  operation: string;
  version: 1;
}

/** One event of an agent in the form of a task. */
export type TaskEvent =
  /** The state of the task changed, or it made progress. */
  | {
    type: 'status';
    /** The state from now on. */
    state: TaskState;
    /** What happened, in one line. */
    message: string;
  }
  /** The agent's model wrote a text, or a skill's sub-agent has a result. */
  | {
    type: 'message';
    /** The texts. */
    parts: string[];
  }
  /** The task failed, or a request for a child was refused. */
  | {
    type: 'error';
    /** The code, for programs. */
    error_code: Code;
    /** The reason in words. */
    error_message: string;
  }
  /** The task has ended. No event follows. */
  | {
    type: 'done';
    /** The state at its end. */
    final_state: TaskState;
  }
  /** An event of a sub-agent, if the run or the skill includes those. */
  | {
    type: 'sub_agent';
    /** The sub-agent's id. */
    agent_id: string;
    /** Its event, which is never itself a `sub_agent`. */
    event: TaskEvent;
  };

/** The state of an agent as a task. */
export type TaskState =
  /** The agent works or waits. */
  | 'running'
  /** Its work was accepted. */
  | 'completed'
  /** Its work was not accepted. */
  | 'failed'
  /** It was cancelled. */
  | 'cancelled';

/** A token of a server, of which only the hash is stored. */
export interface TokenEntry {
  /** Its name. */
  name: string;
  /** The tenant whose runs its clients see. */
  tenant: string;
  /** What its clients may do. */
  rights: TokenRight[];
  /** When it was made. */
  created_at: string;
  /** When it expires; null if it does not. */
  expires_at: string | null;
}

/** The tokens of a server. */
export interface TokenList {
  /** The tokens, oldest first. */
  tokens: TokenEntry[];
  version: 1;
}

/** What a token of a server may do. */
export type TokenRight =
  /** Read runs, definitions, settings and the machine. */
  | 'read'
  /** Start runs, send messages to agents, cancel and resume, apply and export results. */
  | 'run'
  /** Answer the questions of agents. */
  | 'answer'
  /** Add projects, trust files, and read the audit log. */
  | 'admin';

export type ToolName = string;

export type ToolSet = ToolName[];

/** What a group of agents spent. */
export interface Total {
  /** The model of the group, in a list by model. */
  model?: string | null;
  /** The day on which the group's runs started, in a list by day. */
  day?: string | null;
  /** The number of agents in the group. */
  agents: number;
  /** The number of turns. */
  turns: number;
  /** The number of tool calls. */
  tool_calls: number;
  /** How long agents were open. */
  wall_ms: number;
  /** Tokens and money. */
  usage: Usage;
}

/**
 * Whether a user confirmed the content of a definition's or skill's file. Journals store the resulting decision under
 * the key `default`.
 */
export type Trust =
  /** No user confirmed it, or one of its rules cannot be parsed: every call that no rule decides asks a user. */
  | 'ask'
  /** Built in, supplied by the embedder, or confirmed by the user. */
  | 'allow';

/** The files of a project that need trust. */
export interface TrustList {
  /** The project's directory. */
  root: string;
  /** The files that could run code or widen permissions. */
  files: TrustedFile[];
  /** Files that are ignored, each with the reason. */
  passed_over: string[];
  version: 1;
}

/** Whether the user trusts a file. */
export type TrustState =
  /** The user trusts exactly its content. */
  | 'trusted'
  /** The user trusted another content of it. */
  | 'changed'
  /** The user was never asked. */
  | 'new';

/** A file of the project that needs trust. */
export interface TrustedFile {
  /** Its path. */
  path: string;
  /** What it is for. */
  kind: ProjectFileKind;
  /** Whether the user trusts it. */
  trust: TrustState;
  /** The hash of its content. */
  hash: string;
  /** What it does once it is trusted. */
  does: string[];
  /** Commands that may run files which trust does not cover, each with the reason. */
  undetermined: string[];
}

/** A value of a setting that has no effect. */
export interface UnusedValue {
  /** The value as a file would have it. */
  value: unknown;
  /** Where it is set. */
  origin: string;
  /** Why it has no effect. */
  why: string;
}

/** Tokens and money. */
export interface Usage {
  /** The input of all calls that were answered. */
  input_tokens: number;
  /** The output of all calls that were answered. */
  output_tokens: number;
  /** The part of the input that was read from a cache. */
  cached_tokens: number;
  /** The part of the input that was written to a cache. */
  cache_write_tokens: number;
  /** The part of the output that was reasoning. */
  reasoning_tokens: number;
  /** The cost in dollars of all calls that were answered and whose price is known. */
  usd_known: number;
  /** The maximum cost in dollars: `usd_known`, and the maximum of each call that was cut off; null if a price is unknown. */
  usd_at_most: number | null;
  /** The tokens of calls that were answered and whose price is unknown. */
  unpriced_tokens: number;
  /** How many calls were cut off before their reply, so that their usage is unknown. */
  cut_off_calls: number;
  /** The maximum of tokens that the calls that were cut off can have used. */
  cut_off_tokens_at_most: number;
}

/** The result of checking one journal, or the store that contains all of them. */
export interface Verification {
  /** Whether no problem was found. */
  ok: boolean;
  /** The number of events in the journal; null if there is a problem. */
  events?: number | null;
  /** The hash of its last event; null if there is a problem. */
  head?: string | null;
  /** The number of the first damaged event, if the problem is in an event. */
  first_bad_seq?: number | null;
  /** The description of the problem. */
  problem?: string | null;
  /** The run that was checked; null for a problem of the store. */
  run?: string | null;
  version: 1;
}

/** A message to a webhook. */
export interface WebhookMessage {
  /** The id of the message. One that is sent again has the same. */
  id: string;
  /** `run.ended` or `question.asked`. */
  type: string;
  /** The run's id. */
  run: string;
  /** The event of the journal. */
  event: Event;
  version: 1;
}

/** A plan that the planner wrote. */
export interface WrittenPlan {
  /** The plan, as a file for `run --plan`. */
  text: string;
  /** The file that it was written to; null if it was only printed. */
  file: string | null;
  version: 1;
}

/**
 * List the runs, newest first.
 * Needs the right `read`.
 */
export function listRuns(query: {
  /** Only runs with this status. */
  status?: ('running' | 'waiting' | 'interrupted' | 'completed' | 'turn-limit' | 'failed' | 'cancelled' | 'damaged')[] | undefined;
  /** Only runs of the project in this directory. */
  dir?: string | undefined;
  /** Only runs whose id begins like this. */
  prefix?: string | undefined;
  /** The `next` of the page before. */
  cursor?: string | undefined;
  /** The most runs on the page [default: 50]. */
  limit?: number | undefined;
} = {}, options?: CallOptions): Promise<RunPage> {
  return get(`/api/v1/runs`, query, options);
}

/**
 * Start a run. The clients of the server answer its questions.
 * Needs the right `run`.
 */
export function startRun(body: StartRun, options?: CallOptions): Promise<StartedRun> {
  return post(`/api/v1/runs`, body, options);
}

/**
 * A run with its agents, now or as it was at an event.
 * Needs the right `read`.
 */
export function getRun(run: string, query: {
  /** The run as it was at this event. */
  at?: number | undefined;
} = {}, options?: CallOptions): Promise<RunDetail> {
  return get(`/api/v1/runs/${part(run)}`, query, options);
}

/**
 * How a run ended.
 * Needs the right `read`.
 */
export function getOutcome(run: string, options?: CallOptions): Promise<Outcome> {
  return get(`/api/v1/runs/${part(run)}/outcome`, {}, options);
}

/**
 * What the agents of a run spent.
 * Needs the right `read`.
 */
export function getRunStats(run: string, options?: CallOptions): Promise<RunStats> {
  return get(`/api/v1/runs/${part(run)}/stats`, {}, options);
}

/**
 * An agent and its subtree.
 * Needs the right `read`.
 */
export function getAgent(run: string, agent: string, options?: CallOptions): Promise<RunDetail> {
  return get(`/api/v1/runs/${part(run)}/agents/${part(agent)}`, {}, options);
}

/**
 * The report of an agent; `0` is the root.
 * Needs the right `read`.
 */
export function getReport(run: string, agent: string, options?: CallOptions): Promise<ReportResult> {
  return get(`/api/v1/runs/${part(run)}/agents/${part(agent)}/report`, {}, options);
}

/**
 * The changes of an agent as a text; `0` is the root, whose changes are those of the run.
 * Needs the right `read`.
 */
export function getDiff(run: string, agent: string, query: {
  /** The form [default: patch]. */
  form?: 'patch' | 'stat' | 'name_status' | undefined;
  /** The files as they were at this event. */
  at?: number | undefined;
} = {}, options?: CallOptions): Promise<string> {
  return getText(`/api/v1/runs/${part(run)}/agents/${part(agent)}/diff`, query, options);
}

/**
 * The files that an agent changed, with the numbers of lines; `0` is the root.
 * Needs the right `read`.
 */
export function listChangedFiles(run: string, agent: string, query: {
  /** The files as they were at this event. */
  at?: number | undefined;
} = {}, options?: CallOptions): Promise<ChangedFileList> {
  return get(`/api/v1/runs/${part(run)}/agents/${part(agent)}/diff/files`, query, options);
}

/**
 * The change of one file by an agent.
 * Needs the right `read`.
 */
export function getFileDiff(run: string, agent: string, query: {
  /** The path of the file, before or after the change. */
  path: string | undefined;
  /** The files as they were at this event. */
  at?: number | undefined;
}, options?: CallOptions): Promise<FileDiff> {
  return get(`/api/v1/runs/${part(run)}/agents/${part(agent)}/diff/file`, query, options);
}

/**
 * The terms of an agent: in words, and in full.
 * Needs the right `read`.
 */
export function getContract(run: string, agent: string, options?: CallOptions): Promise<ContractDetail> {
  return get(`/api/v1/runs/${part(run)}/agents/${part(agent)}/contract`, {}, options);
}

/**
 * A part of the conversation of an agent: prompts, replies, tool calls with input and output, compactions.
 * Needs the right `read`.
 */
export function getConversation(run: string, agent: string, query: {
  /** Only events after this number. */
  after?: number | undefined;
  /** The most events of the agent on the page [default: 100]. */
  limit?: number | undefined;
} = {}, options?: CallOptions): Promise<Conversation> {
  return get(`/api/v1/runs/${part(run)}/agents/${part(agent)}/conversation`, query, options);
}

/**
 * When each agent of a run did what.
 * Needs the right `read`.
 */
export function getTimeline(run: string, options?: CallOptions): Promise<RunTimeline> {
  return get(`/api/v1/runs/${part(run)}/timeline`, {}, options);
}

/**
 * The work of a run that was not merged and is kept.
 * Needs the right `read`.
 */
export function listSalvage(run: string, options?: CallOptions): Promise<SalvageList> {
  return get(`/api/v1/runs/${part(run)}/salvage`, {}, options);
}

/**
 * What an apply would write. Nothing is written.
 * Needs the right `read`.
 */
export function checkApply(run: string, query: {
  /** Only the work of this agent. */
  agent?: string | undefined;
  /** Also for a run or an agent that failed or was cancelled [default: false]. */
  unfinished?: 'true' | 'false' | undefined;
} = {}, options?: CallOptions): Promise<ApplyCheck> {
  return get(`/api/v1/runs/${part(run)}/apply`, query, options);
}

/**
 * Apply the changes of a run, or of one of its agents, to its directory; or take that back.
 * Needs the right `run`.
 */
export function apply(run: string, body: ApplyWork, options?: CallOptions): Promise<ApplyResult> {
  return post(`/api/v1/runs/${part(run)}/apply`, body, options);
}

/**
 * A run as one file, a bundle, which can be replayed on any machine.
 * Needs the right `run`.
 */
export function exportRunUrl(run: string): string {
  return url(`/api/v1/runs/${part(run)}/export`, {});
}

/**
 * Start a replay of a run: a run that repeats its replies and results.
 * Needs the right `run`.
 */
export function replay(run: string, body: ReplayRun, options?: CallOptions): Promise<StartedRun> {
  return post(`/api/v1/runs/${part(run)}/replay`, body, options);
}

/**
 * Start a run that continues the conversation of an agent that has ended; `0` is the root.
 * Needs the right `run`.
 */
export function continueAgent(run: string, agent: string, body: ContinueRun, options?: CallOptions): Promise<StartedRun> {
  return post(`/api/v1/runs/${part(run)}/agents/${part(agent)}/continue`, body, options);
}

/**
 * Start a run that does the work of a run or an agent again, on what is integrated; `0` is the root.
 * Needs the right `run`.
 */
export function retryAgent(run: string, agent: string, body: RetryRun, options?: CallOptions): Promise<StartedRun> {
  return post(`/api/v1/runs/${part(run)}/agents/${part(agent)}/retry`, body, options);
}

/**
 * Why an agent may or may not execute an operation.
 * Needs the right `read`.
 */
export function explain(run: string, agent: string, query: {
  /** The operation, such as `write:src/main.rs`. */
  operation: string | undefined;
}, options?: CallOptions): Promise<Explanation> {
  return get(`/api/v1/runs/${part(run)}/agents/${part(agent)}/explain`, query, options);
}

/**
 * A part of the journal of a run.
 * Needs the right `read`.
 */
export function listEvents(run: string, query: {
  /** Only events after this number. */
  after?: number | undefined;
  /** The most events on the page [default: 100]. */
  limit?: number | undefined;
  /** Only events of this agent. */
  agent?: string[] | undefined;
  /** Only events of this kind, such as `agent.tool_finished`. */
  kind?: string[] | undefined;
} = {}, options?: CallOptions): Promise<EventPage> {
  return get(`/api/v1/runs/${part(run)}/events`, query, options);
}

/**
 * The journal of a run as it grows. The `id` of a message is the number of its event; after the last event comes the message `end`.
 * Needs the right `read`.
 */
export function followEvents(run: string, query: {
  /** Only events after this number. */
  after?: number | undefined;
  /** Only events of this agent. */
  agent?: string[] | undefined;
  /** Only events of this kind, such as `agent.tool_finished`. */
  kind?: string[] | undefined;
} = {}, follower: Follower<Event>): Following {
  return follow(`/api/v1/runs/${part(run)}/events/stream`, query, follower);
}

/**
 * An agent in the form of a task: `status`, `message`, `error`, `done`.
 * Needs the right `read`.
 */
export function followTask(run: string, agent: string, follower: Follower<AgentTaskEvent>): Following {
  return follow(`/api/v1/runs/${part(run)}/agents/${part(agent)}/task/stream`, {}, follower);
}

/**
 * What the models of a run that this server executes write at the moment. A slow client loses some of it.
 * Needs the right `read`.
 */
export function followDeltas(run: string, query: {
  /** Only of this agent. */
  agent?: string | undefined;
} = {}, follower: Follower<Delta>): Following {
  return follow(`/api/v1/runs/${part(run)}/deltas/stream`, query, follower);
}

/**
 * The questions of all runs that wait for an answer.
 * Needs the right `read`.
 */
export function listQuestions(options?: CallOptions): Promise<QuestionList> {
  return get(`/api/v1/questions`, {}, options);
}

/**
 * The questions of a run that wait for an answer.
 * Needs the right `read`.
 */
export function listRunQuestions(run: string, options?: CallOptions): Promise<QuestionList> {
  return get(`/api/v1/runs/${part(run)}/questions`, {}, options);
}

/**
 * Answer a question.
 * Needs the right `answer`.
 */
export function answerQuestion(run: string, body: AnswerQuestion, options?: CallOptions): Promise<Answer> {
  return post(`/api/v1/runs/${part(run)}/answers`, body, options);
}

/**
 * Send a message to an agent.
 * Needs the right `run`.
 */
export function sendMessage(run: string, agent: string, body: SendMessage, options?: CallOptions): Promise<SentMessage> {
  return post(`/api/v1/runs/${part(run)}/agents/${part(agent)}/messages`, body, options);
}

/**
 * Cancel a run, or one of its agents with its subtree.
 * Needs the right `run`.
 */
export function cancel(run: string, body: EndRun, options?: CallOptions): Promise<CancelResult> {
  return post(`/api/v1/runs/${part(run)}/cancel`, body, options);
}

/**
 * The same, and stop its tool calls at once.
 * Needs the right `run`.
 */
export function kill(run: string, body: EndRun, options?: CallOptions): Promise<CancelResult> {
  return post(`/api/v1/runs/${part(run)}/kill`, body, options);
}

/**
 * Take over an interrupted run.
 * Needs the right `run`.
 */
export function resume(run: string, options?: CallOptions): Promise<StartedRun> {
  return post(`/api/v1/runs/${part(run)}/resume`, {}, options);
}

/**
 * Whose token the request has, what it may do, and what the server knows.
 * Needs the right `read`.
 */
export function getSession(options?: CallOptions): Promise<ServerSession> {
  return get(`/api/v1/session`, {}, options);
}

/**
 * The projects in which the client may start runs.
 * Needs the right `read`.
 */
export function listProjects(options?: CallOptions): Promise<ServerProjectList> {
  return get(`/api/v1/projects`, {}, options);
}

/**
 * Let the clients of a tenant start runs in a project.
 * Needs the right `admin`.
 */
export function addProject(body: AddProject, options?: CallOptions): Promise<ServerProjectList> {
  return post(`/api/v1/projects`, body, options);
}

/**
 * What clients decided, newest first, with the name of the token.
 * Needs the right `admin`.
 */
export function listAudit(query: {
  /** The most entries [default: 100]. */
  limit?: number | undefined;
} = {}, options?: CallOptions): Promise<AuditPage> {
  return get(`/api/v1/audit`, query, options);
}

/**
 * Check a plan, and start nothing.
 * Needs the right `read`.
 */
export function checkPlan(body: CheckPlan, options?: CallOptions): Promise<PlanCheck> {
  return post(`/api/v1/plans/check`, body, options);
}

/**
 * The files of a project that could run code or widen permissions, and whether the user trusts them.
 * Needs the right `read`.
 */
export function listTrust(query: {
  /** The directory [default: the server's own]. */
  dir?: string | undefined;
} = {}, options?: CallOptions): Promise<TrustList> {
  return get(`/api/v1/trust`, query, options);
}

/**
 * What all runs spent, by model and by day.
 * Needs the right `read`.
 */
export function getStats(options?: CallOptions): Promise<AllStats> {
  return get(`/api/v1/stats`, {}, options);
}

/**
 * The agent definitions of a directory, with their origins.
 * Needs the right `read`.
 */
export function listDefinitions(query: {
  /** The directory [default: the server's own]. */
  dir?: string | undefined;
} = {}, options?: CallOptions): Promise<AgentList> {
  return get(`/api/v1/agents`, query, options);
}

/**
 * The skills of a directory, with their origins.
 * Needs the right `read`.
 */
export function listSkills(query: {
  /** The directory [default: the server's own]. */
  dir?: string | undefined;
} = {}, options?: CallOptions): Promise<SkillList> {
  return get(`/api/v1/skills`, query, options);
}

/**
 * Every setting of a directory with its origin. No key or password is shown.
 * Needs the right `read`.
 */
export function listSettings(query: {
  /** The directory [default: the server's own]. */
  dir?: string | undefined;
} = {}, options?: CallOptions): Promise<SettingsList> {
  return get(`/api/v1/settings`, query, options);
}

/**
 * Model providers, models with their prices, and short names.
 * Needs the right `read`.
 */
export function listModels(options?: CallOptions): Promise<ModelList> {
  return get(`/api/v1/models`, {}, options);
}

/**
 * What the machine offers to runs.
 * Needs the right `read`.
 */
export function inspectMachine(options?: CallOptions): Promise<MachineReport> {
  return get(`/api/v1/doctor`, {}, options);
}
