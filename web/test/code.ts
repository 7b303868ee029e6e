import assert from 'node:assert/strict';
import { test } from 'node:test';

import { highlight, languageOf } from '../src/lib/code/highlight';

const SAMPLES: readonly (readonly [string, string])[] = [
  ['rs', 'fn main() { println!("a // b"); /* c */ let x = \'y\'; r#"raw"#; 0xff_u8 }'],
  ['ts', 'const x = `a ${b}`; // end\nif (x === "y") f(1.5e3);'],
  ['py', 'def f():\n    """text\n    # no comment"""\n    return 1 # yes'],
  ['sh', 'echo "a # b" $x # comment\nif true; then cd /; fi'],
  ['yaml', 'a: true # why\nb: "c"'],
  ['html', '<!-- c --><p class="x">text</p><script>alert(1)</script>'],
  ['sql', 'SELECT * FROM t -- all'],
  ['diff', '--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same'],
  ['unknown', 'anything "at all"'],
  ['__proto__', 'constructor'],
  ['rs', '"a string without an end'],
  ['ts', '/* a comment without an end'],
];

test('no character of the code is lost or moved', () => {
  for (const [language, code] of SAMPLES) {
    const text = highlight(code, language)
      .map((token) => token.text)
      .join('');
    assert.equal(text, code, language);
  }
});

test('comments, strings and keywords are recognised', () => {
  const kinds = (code: string, language: string) =>
    highlight(code, language)
      .filter((token) => token.kind !== 'plain')
      .map((token) => `${token.kind}:${token.text}`);
  assert.deepEqual(kinds('let s = "// no"; // yes', 'rs'), ['keyword:let', 'string:"// no"', 'comment:// yes']);
  assert.deepEqual(kinds('select 1 from t', 'sql'), ['keyword:select', 'number:1', 'keyword:from']);
});

test('long code without an end of its string is read in one pass', () => {
  for (const [code, language] of [
    [`"""${'x'.repeat(50_000)}`, 'py'],
    ['`'.repeat(9_999), 'ts'],
    ['/*'.repeat(20_000), 'rs'],
  ] as const) {
    assert.ok(highlight(code, language).length > 0);
  }
});

test('the language of a file is in its name', () => {
  assert.equal(languageOf('src/main.rs'), 'rs');
  assert.equal(languageOf('a.b/Makefile'), 'makefile');
});
