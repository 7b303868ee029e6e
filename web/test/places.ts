import assert from 'node:assert/strict';
import { test } from 'node:test';

import { part, url } from '../src/api/transport';

test('no text leads a request to another path', () => {
  assert.equal(part('a/../b?c#d'), 'a%2F..%2Fb%3Fc%23d');
  assert.deepEqual(['', '.', '..'].map(part), ['-', '-', '-']);
});

test('parameters without a value are omitted, and lists are repeated', () => {
  assert.equal(url('/x', { a: undefined, b: 1, c: ['d', 'e f'] }), '/x?b=1&c=d&c=e+f');
  assert.equal(url('/x', {}), '/x');
});
