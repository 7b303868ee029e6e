import assert from 'node:assert/strict';
import { test } from 'node:test';

import { agentNumber, bytes, counted, duration, runOf, short, usd } from '../src/lib/format';

test('numbers are short and keep their size', () => {
  assert.deepEqual([0, 999, 1_000, 9_949, 9_951, 34_400, 999_499, 999_500, 12_000_000].map(short), [
    '0', '999', '1.0k', '9.9k', '10k', '34k', '999k', '1.0M', '12M',
  ]);
  assert.deepEqual([0, 0.00001, 0.0123, 1.5, 250].map(usd), ['$0', '<$0.0001', '$0.0123', '$1.50', '$250']);
  assert.deepEqual([12, 1_536, 5_242_880].map(bytes), ['12 B', '1.5 KiB', '5.0 MiB']);
  assert.deepEqual([counted(1, 'agent'), counted(1_200, 'agent')], ['1 agent', '1,200 agents']);
});

test('durations name their units', () => {
  assert.deepEqual([-3, 0, 250, 1_500, 42_000, 65_000, 3_720_000, 200_000_000].map(duration), [
    '0 ms', '0 ms', '250 ms', '1.5 s', '42 s', '1 min 05 s', '1 h 02 min', '2 d 7 h',
  ]);
});

test('the id of an agent has its run and its number', () => {
  assert.deepEqual(['k3f9ab2c', 'k3f9ab2c.2.1'].map(agentNumber), ['0', '2.1']);
  assert.deepEqual(['k3f9ab2c', 'k3f9ab2c.2.1'].map(runOf), ['k3f9ab2c', 'k3f9ab2c']);
});
