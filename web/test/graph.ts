import assert from 'node:assert/strict';
import { test } from 'node:test';

import { layoutOf } from '../src/lib/graph';

const step = (title: string, ...depends_on: string[]) => ({ title, depends_on });

test('each step is right of those that it depends on', () => {
  const { places, columns, rows } = layoutOf([step('a'), step('b', 'a'), step('c', 'a'), step('d', 'b', 'c'), step('e')]);
  assert.deepEqual(places.map(({ column }) => column), [0, 1, 1, 2, 0]);
  assert.deepEqual([columns, rows], [3, 2]);
});

test('an edge that others imply is not drawn', () => {
  const { edges } = layoutOf([step('a'), step('b', 'a'), step('c', 'a', 'b')]);
  assert.deepEqual(edges, [{ from: 0, to: 1 }, { from: 1, to: 2 }]);
});

test('steps that do not exist and cycles are no reason to fail', () => {
  assert.equal(layoutOf([]).rows, 0);
  assert.equal(layoutOf([step('a', 'nothing')]).edges.length, 0);
  assert.equal(layoutOf([step('a', 'b'), step('b', 'a')]).places.length, 2);
});
