// The entries of a conversation as a reader follows them: each call with its question and its result below its reply.

import type { Code, ConversationEntry, RequestedCall } from '../api/client';

type EntryOf<Kind extends ConversationEntry['kind']> = Extract<ConversationEntry, { kind: Kind }>;

/** A tool call with what became of it. */
export interface Call {
  readonly call: RequestedCall;
  readonly result: EntryOf<'tool_result'> | undefined;
  readonly question: EntryOf<'question'> | undefined;
  readonly answer: EntryOf<'answered'> | undefined;
}

/** What is shown as one piece. */
export type Item =
  | { readonly kind: 'reply'; readonly key: string; readonly entry: EntryOf<'reply'>; readonly calls: readonly Call[] }
  | { readonly kind: 'note'; readonly key: string; readonly entry: EntryOf<'other' | 'summary'> }
  | {
      readonly kind: 'entry';
      readonly key: string;
      readonly entry: Exclude<ConversationEntry, EntryOf<'reply' | 'other' | 'summary'>>;
    };

/** Events that other entries say more about. */
const SAID_ELSEWHERE = new Set([
  'agent.model_called',
  'agent.tool_intended',
  'agent.permission_decided',
  'agent.subagent_running',
]);

export function itemsOf(entries: readonly ConversationEntry[]): Item[] {
  const items: Item[] = [];
  // The newest call of each id: a second attempt may use the ids of the first one again.
  const calls = new Map<string, { -readonly [Field in keyof Call]: Call[Field] }>();
  for (const [at, entry] of entries.entries()) {
    const key = `${entry.seq}-${at > 0 && entries[at - 1]?.seq === entry.seq ? 'b' : 'a'}`;
    switch (entry.kind) {
      case 'reply': {
        const requested = entry.calls.map((call) => ({
          call,
          result: undefined,
          question: undefined,
          answer: undefined,
        }));
        for (const call of requested) calls.set(call.call.call_id, call);
        items.push({ kind: 'reply', key, entry, calls: requested });
        break;
      }
      case 'tool_result': {
        const call = calls.get(entry.call_id);
        if (call !== undefined && call.result === undefined) call.result = entry;
        else items.push({ kind: 'entry', key, entry });
        break;
      }
      case 'question': {
        const call = calls.get(entry.call_id);
        if (call !== undefined) call.question = entry;
        else items.push({ kind: 'entry', key, entry });
        break;
      }
      case 'answered': {
        const call = calls.get(entry.call_id);
        if (call !== undefined) call.answer = entry;
        else items.push({ kind: 'entry', key, entry });
        break;
      }
      case 'other':
        if (!SAID_ELSEWHERE.has(entry.event)) items.push({ kind: 'note', key, entry });
        break;
      case 'summary':
        items.push({ kind: 'note', key, entry });
        break;
      default:
        items.push({ kind: 'entry', key, entry });
    }
  }
  return items;
}

export type CallState = 'running' | 'waits' | 'done' | 'refused' | 'failed' | 'cut off';

/** Codes of calls that did not run, because the agent may not execute their operations. */
const REFUSED: ReadonlySet<Code> = new Set<Code>(['PERMISSION_DENIED', 'OWNERSHIP_VIOLATION', 'SPAWN_NOT_ALLOWED']);

export function stateOfCall(call: Call): CallState {
  const { result } = call;
  if (result === undefined) return call.question !== undefined && call.answer === undefined ? 'waits' : 'running';
  if (result.cut_off === true) return 'cut off';
  if (result.code === null) return 'done';
  return REFUSED.has(result.code) ? 'refused' : 'failed';
}

/** What a call is about, in one line: its most telling input. */
export function callInBrief(call: RequestedCall): string {
  const { input } = call;
  if (typeof input === 'string') return oneLine(input);
  if (typeof input !== 'object' || input === null) return '';
  const fields = input as Record<string, unknown>;
  for (const name of ['command', 'pattern', 'path', 'url', 'description', 'skill_name', 'name', 'query', 'task_id']) {
    const value = fields[name];
    if (typeof value !== 'string' || value === '') continue;
    const where = name === 'pattern' && typeof fields['path'] === 'string' ? ` in ${fields['path']}` : '';
    return oneLine(value) + where;
  }
  const first = Object.values(fields).find((value) => typeof value === 'string');
  return typeof first === 'string' ? oneLine(first) : '';
}

function oneLine(text: string): string {
  const line = text.trim().split('\n', 1)[0] ?? '';
  return line.length < text.trim().length ? `${line} …` : line;
}

/** Files and skills that calls of a conversation used. */
export interface Used {
  /** Each file that was read, with how often, in the order of the first time. */
  readonly read: ReadonlyMap<string, number>;
  readonly written: ReadonlyMap<string, number>;
  readonly skills: ReadonlyMap<string, number>;
}

/** What calls read, wrote and loaded. A call that failed did not. */
export function usedBy(entries: readonly ConversationEntry[]): Used {
  const used = { read: new Map<string, number>(), written: new Map<string, number>(), skills: new Map<string, number>() };
  const lists: Record<string, Map<string, number>> = {
    read: used.read,
    edit: used.written,
    write: used.written,
    skill: used.skills,
  };
  const add = (tool: string, input: unknown) => {
    const list = Object.hasOwn(lists, tool) ? lists[tool] : undefined;
    if (list === undefined || typeof input !== 'object' || input === null) return;
    const named = (input as Record<string, unknown>)[tool === 'skill' ? 'name' : 'path'];
    if (typeof named === 'string') list.set(named, (list.get(named) ?? 0) + 1);
  };
  for (const item of itemsOf(entries)) {
    if (item.kind !== 'reply') continue;
    for (const call of item.calls) {
      if (call.result?.code === null && call.result.cut_off !== true) add(call.call.tool, call.call.input);
    }
  }
  return used;
}
