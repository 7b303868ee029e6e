import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { ConversationEntry } from '../src/api/client';
import { callInBrief, itemsOf, stateOfCall, usedBy } from '../src/lib/conversation';

const common = { at: '', summary: '' };
const usage = {} as never;

function reply(seq: number, ...calls: [string, string, unknown][]): ConversationEntry {
  const requested = calls.map(([call_id, tool, input]) => ({ call_id, tool, input }));
  return { ...common, seq, kind: 'reply', turn: 1, text: '', calls: requested, usage, elapsed_ms: 1, cut_off: false };
}

function result(seq: number, call_id: string, tool: string, code: 'TOOL_ERROR' | 'OWNERSHIP_VIOLATION' | null = null): ConversationEntry {
  return { ...common, seq, kind: 'tool_result', call_id, tool, output: String(seq), code, elapsed_ms: 1 };
}

const other = (seq: number, event: string): ConversationEntry => ({ ...common, seq, kind: 'other', event });

test('results are with their calls, also if a second attempt has the same ids', () => {
  const items = itemsOf([
    other(1, 'agent.model_called'),
    reply(2, ['a', 'read', { path: 'x' }], ['b', 'bash', { command: 'ls' }]),
    other(3, 'agent.tool_intended'),
    result(4, 'b', 'bash', 'TOOL_ERROR'),
    result(5, 'a', 'read'),
    other(6, 'agent.subagent_started'),
    reply(7, ['a', 'write', { path: 'y' }]),
    result(8, 'a', 'write', 'OWNERSHIP_VIOLATION'),
    reply(9, ['c', 'bash', {}]),
  ]);
  const brief = items.map((item) =>
    item.kind === 'reply'
      ? item.calls.map((call) => `${call.call.call_id}=${call.result?.seq ?? ''} ${stateOfCall(call)}`).join(', ')
      : item.entry.kind,
  );
  assert.deepEqual(brief, ['a=5 done, b=4 failed', 'other', 'a=8 refused', 'c= running']);
});

test('a call that asks waits until it is answered', () => {
  const question: ConversationEntry = { ...common, seq: 2, kind: 'question', call_id: 'a', operation: 'bash:x', arguments: '{}' };
  const answered: ConversationEntry = { ...common, seq: 3, kind: 'answered', call_id: 'a', allowed: true, reason: null };
  const states = [[question], [question, answered]].map((entries) => {
    const item = itemsOf([reply(1, ['a', 'bash', {}]), ...entries])[0];
    const call = item?.kind === 'reply' ? item.calls[0] : undefined;
    return call === undefined ? '' : stateOfCall(call);
  });
  assert.deepEqual(states, ['waits', 'running']);
});

test('calls in brief', () => {
  const brief = (input: unknown) => callInBrief({ call_id: 'a', tool: 'x', input });
  assert.equal(brief({ command: 'ls\nrm x' }), 'ls …');
  assert.equal(brief({ pattern: 'fn', path: 'src' }), 'fn in src');
  assert.equal(brief({ other: 'x' }), 'x');
  assert.equal(brief('no JSON'), 'no JSON');
  assert.equal(brief(null), '');
});

test('what calls used, if they worked', () => {
  const used = usedBy([
    reply(1, ['a', 'read', { path: 'x' }], ['b', 'write', { path: 'y' }], ['c', 'skill', { name: 'review' }]),
    result(2, 'a', 'read'),
    result(3, 'b', 'write', 'OWNERSHIP_VIOLATION'),
    result(4, 'c', 'skill'),
    reply(5, ['a', 'read', { path: 'x' }], ['b', 'toString', { path: 'y' }]),
    result(6, 'a', 'read'),
    result(7, 'b', 'toString'),
  ]);
  assert.deepEqual([...used.read], [['x', 2]]);
  assert.deepEqual([...used.written], []);
  assert.deepEqual([...used.skills], [['review', 1]]);
});
