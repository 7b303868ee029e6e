import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Agent } from '../src/api/client';
import { inOrder } from '../src/lib/agents';

test('siblings are in the order of their numbers', () => {
  const agents = ['r.2.10', 'r.2.1', 'r.2.9'].map((id) => ({ id }) as Agent);
  assert.deepEqual(inOrder(agents).map(({ id }) => id), ['r.2.1', 'r.2.9', 'r.2.10']);
});
