import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Problem } from '../src/api/client';
import { emptyDraft, requestOf } from '../src/lib/drafts';
import { idempotencyKey } from '../src/lib/once';
import { isAbout } from '../src/lib/problems';

test('a draft becomes a request without what is empty', () => {
  assert.deepEqual(requestOf(emptyDraft('')), {});
  const draft = emptyDraft(' /project ');
  Object.assign(draft, { request: 'Write it.\n', agent: 'coder', allow: 'bash:make test\n\n network \n', onAsk: 'deny', plan: 'goal: x' });
  Object.assign(draft.limits, { 'agent.max_usd': '0.5', 'agent.max_time': ' 30m ', 'agent.max_tokens': 'none' });
  assert.deepEqual(requestOf(draft), {
    request: 'Write it.',
    dir: '/project',
    agent: 'coder',
    allow: ['bash:make test', 'network'],
    settings: { on_ask: 'deny', 'agent.max_usd': 0.5, 'agent.max_time': '30m', 'agent.max_tokens': 'none' },
  });
  // The plan that was written belongs to the request only while it is shown.
  assert.equal(requestOf({ ...draft, hasPlan: true }).plan, 'goal: x');
});

test('idempotency keys differ', () => {
  assert.match(idempotencyKey(), /^[0-9a-f]{32}$/);
  assert.notEqual(idempotencyKey(), idempotencyKey());
});

test('a problem belongs to its field, and to no field whose name begins in the same way', () => {
  const problem = (field: string | undefined, code = 'REFUSED') => ({ status: 422, title: '', detail: '', code, field }) as Problem;
  assert.ok(isAbout(problem('dir'), 'dir') && !isAbout(problem('directory'), 'dir'));
  assert.ok(isAbout(problem('allow[2]'), 'allow') && isAbout(problem('rules[0].pattern'), 'rules'));
  assert.ok(isAbout(problem('settings.agent.max_usd'), 'settings.agent.max_usd'));
  assert.ok(!isAbout(problem('settings.agent.max_usd'), 'settings.agent.max_us'));
  assert.ok(isAbout(problem(undefined, 'MODEL_KEY_MISSING'), 'settings.model') && !isAbout(problem(undefined), ''.padEnd(1)));
  assert.ok(!isAbout('the server does not answer', 'dir') && !isAbout(undefined, 'dir'));
});
