import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Agent } from '../src/api/client';
import { rowsOf, treeOf } from '../src/lib/agents';

test('agents are in the order of their numbers, each below its parent', () => {
  const agent = (id: string): Agent =>
    ({ id, parent: id.includes('.') ? id.slice(0, id.lastIndexOf('.')) : null }) as unknown as Agent;
  const listed = ['run', 'run.1', 'run.10', 'run.10.1', 'run.2', 'run.2.11', 'run.2.9'].map(agent);
  const numbers = rowsOf(treeOf(listed), new Set()).map(({ number }) => number);
  assert.deepEqual(numbers, ['0', '1', '2', '2.9', '2.11', '10', '10.1']);
});
