import assert from 'node:assert/strict';
import { test } from 'node:test';

import { visible, visibleText } from '../src/lib/visible';

test('characters that cannot be seen are named', () => {
  assert.equal(visibleText('rm -rf build\u202e # safe\u0007'), 'rm -rf build‹right-to-left override› # safe‹BEL›');
  assert.equal(visibleText('\u001b[31mred\u001b[0m'), '‹ESC›[31mred‹ESC›[0m');
  assert.equal(visibleText('a\u200bb\u{e0041}c\ufeff'), 'a‹zero-width space›b‹U+E0041›c‹byte order mark›');
  assert.equal(visibleText('\ud800'), '‹U+D800›');
});

test('other text stays as it is', () => {
  assert.equal(visibleText('a\tb\nc\r\nd é 漢 😀 <b>'), 'a\tb\nc\r\nd é 漢 😀 <b>');
  assert.equal(visibleText('over\rwrite'), 'over‹CR›write');
  assert.deepEqual(visible(''), []);
  assert.deepEqual(visible('x\u0000'), [
    { kind: 'text', text: 'x' },
    { kind: 'mark', text: 'NUL' },
  ]);
});
