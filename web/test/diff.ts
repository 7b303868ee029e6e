import assert from 'node:assert/strict';
import { test } from 'node:test';

import { coloured, parseDiff, sideBySide } from '../src/lib/diff';

const DIFF = `diff --git a/a.rs b/b.rs
similarity index 90%
rename from a.rs
rename to b.rs
--- a/a.rs
+++ b/b.rs
@@ -7,4 +7,5 @@ pub struct Word {
 fn a() {
-    let x = 1;
--- not a header
+    let x = 2;
+    // new
++++ nor this
 }
\\ No newline at end of file
@@ -20 +21 @@
-old
+new
`;

test('lines have their numbers, and no line is a header', () => {
  const { hunks, notes } = parseDiff(DIFF);
  assert.deepEqual(notes, [], 'names are shown elsewhere');
  assert.equal(hunks.length, 2);
  const brief = hunks[0]?.lines.map(({ kind, before, after, text }) => `${kind} ${before ?? '-'} ${after ?? '-'} ${text}`);
  assert.deepEqual(brief, [
    'context 7 7 fn a() {',
    'removed 8 -     let x = 1;',
    'removed 9 - -- not a header',
    'added - 8     let x = 2;',
    'added - 9     // new',
    'added - 10 +++ nor this',
    'context 10 11 }',
    'note - - No newline at end of file',
  ]);
  assert.equal(hunks[0]?.title, 'pub struct Word {');
  assert.deepEqual(hunks[1]?.lines.map(({ text }) => text), ['old', 'new']);
});

test('lines that were removed are beside those in their place', () => {
  const rows = sideBySide(parseDiff(DIFF).hunks[0]?.lines ?? []);
  assert.deepEqual(
    rows.map(({ left, right }) => `${left?.text ?? ''} | ${right?.text ?? ''}`),
    [
      'fn a() { | fn a() {',
      '    let x = 1; |     let x = 2;',
      '-- not a header |     // new',
      ' | +++ nor this',
      '} | }',
      'No newline at end of file | No newline at end of file',
    ],
  );
});

test('no character is lost to colours, and what differs is marked', () => {
  const lines = parseDiff(DIFF).hunks[0]?.lines ?? [];
  const colours = coloured(lines, 'rust');
  for (const line of lines) {
    if (line.kind !== 'note') assert.equal(colours.get(line)?.map(({ text }) => text).join(''), line.text);
  }
  const changed = lines.find(({ text }) => text.includes('x = 2'));
  assert.ok(changed !== undefined);
  assert.deepEqual(colours.get(changed)?.filter(({ differs }) => differs).map(({ text }) => text), ['2']);
});

test('a change that is no text', () => {
  const { hunks, notes } = parseDiff('diff --git a/x b/x\nnew file mode 100644\nBinary files /dev/null and b/x differ\n');
  assert.deepEqual([hunks.length, notes], [0, ['Binary files /dev/null and b/x differ']]);
});

test('a line is beside the one that it became, also if others come before it', () => {
  const text = '@@ -1,2 +1,3 @@\n-  for part in a.split() {\n-    push(part);\n+  // new\n+  for part in a.words() {\n+    push(part.to_owned());\n';
  const rows = sideBySide(parseDiff(text).hunks[0]?.lines ?? []);
  assert.deepEqual(
    rows.map(({ left, right }) => `${left?.text.trim() ?? ''} | ${right?.text.trim() ?? ''}`),
    [' | // new', 'for part in a.split() { | for part in a.words() {', 'push(part); | push(part.to_owned());'],
  );
});
