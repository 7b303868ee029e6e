import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parseMarkdown, type Block } from '../src/lib/markdown/blocks';
import { parseInline, type Inline } from '../src/lib/markdown/inline';

/** An inline text in few characters: `b(…)` strong, `i(…)` emphasis, `s(…)` deleted, `c(…)` code, `l(…)` link, `p(…)` picture. */
function brief(list: readonly Inline[]): string {
  return list
    .map((inline) => {
      switch (inline.kind) {
        case 'text':
          return inline.text;
        case 'code':
          return `c(${inline.text})`;
        case 'strong':
          return `b(${brief(inline.children)})`;
        case 'em':
          return `i(${brief(inline.children)})`;
        case 'del':
          return `s(${brief(inline.children)})`;
        case 'link':
          return `l(${brief(inline.children)}→${inline.href})`;
        case 'picture':
          return `p(${inline.alt}→${inline.src})`;
        case 'break':
          return '⏎';
      }
    })
    .join('');
}

function outline(blocks: readonly Block[]): string {
  return blocks
    .map((block) => {
      switch (block.kind) {
        case 'paragraph':
          return brief(block.content);
        case 'heading':
          return `h${block.level}(${brief(block.content)})`;
        case 'code':
          return `code ${block.language}(${block.text})`;
        case 'quote':
          return `quote[${outline(block.blocks)}]`;
        case 'list': {
          const items = block.items.map(({ checked, blocks: inner }) => {
            const mark = checked === undefined ? '' : checked ? 'x ' : '_ ';
            return mark + outline(inner);
          });
          return `${block.start ?? 'ul'}[${items.join(' | ')}]`;
        }
        case 'table':
          return `table[${[block.head, ...block.rows].map((row) => row.map(brief).join(',')).join(' | ')}]`;
        case 'rule':
          return '---';
      }
    })
    .join(' ¶ ');
}

const md = (text: string) => outline(parseMarkdown(text));
const inline = (text: string) => brief(parseInline(text));

test('emphasis is matched, and lone marks are text', () => {
  assert.equal(inline('a **b** *c* _d_ __e__ ~~f~~ `g`'), 'a b(b) i(c) i(d) b(e) s(f) c(g)');
  assert.equal(inline('***both***'), 'i(b(both))');
  assert.equal(inline('**a *b* c**'), 'b(a i(b) c)');
  assert.equal(inline('2 * 3 * 4, snake_case_name, a**'), '2 * 3 * 4, snake_case_name, a**');
  assert.equal(inline('*a **b*'), '*a *i(b)');
  assert.equal(inline('\\*not\\* `\\*`'), '*not* c(\\*)');
  assert.equal(inline('a ``b ` c`` d `e'), 'a c(b ` c) d `e');
});

test('links are found with their addresses', () => {
  assert.equal(inline('[a *b*](https://x.example/y) c'), 'l(a i(b)→https://x.example/y) c');
  assert.equal(inline('see https://x.example/y. Then'), 'see l(https://x.example/y→https://x.example/y). Then');
  assert.equal(inline('<https://x.example>'), 'l(https://x.example→https://x.example)');
  assert.equal(inline('![alt](https://x.example/p.png)'), 'p(alt→https://x.example/p.png)');
  assert.equal(inline('[a](b "title") [c] (d) [e'), 'l(a→b) [c] (d) [e');
  assert.equal(inline('[a [b](c)](d)'), 'l(a [b](c)→d)', 'no link in a link');
  assert.equal(inline('[x](javascript:alert(1))'), 'l(x→javascript:alert(1))', 'the page does not open it');
});

test('HTML is text', () => {
  assert.equal(md('<script>alert(1)</script>'), '<script>alert(1)</script>');
  assert.equal(md('<img src=x onerror=alert(1)> &lt;b&gt;'), '<img src=x onerror=alert(1)> &lt;b&gt;');
});

test('blocks', () => {
  assert.equal(md('# A\n\nb\nc\n\n## D #\nText\n===='), 'h1(A) ¶ b\nc ¶ h2(D) ¶ h1(Text)');
  assert.equal(md('```rust x\nfn f() {}\n\n# no heading\n```\nafter'), 'code rust(fn f() {}\n\n# no heading) ¶ after');
  assert.equal(md('~~~\nwithout an end'), 'code (without an end)');
  assert.equal(md('> a\n> > b\n\nc'), 'quote[a ¶ quote[b]] ¶ c');
  assert.equal(md('a\n\n---\n\nb'), 'a ¶ --- ¶ b');
  assert.equal(md('    indented\n      code'), 'code (indented\n  code)');
});

test('lists', () => {
  assert.equal(md('- a\n- b\n  - c\n  - d\n- e'), 'ul[a | b ¶ ul[c | d] | e]');
  assert.equal(md('3. a\n4. b\n\n   more of b\n5. c'), '3[a | b ¶ more of b | c]');
  assert.equal(md('- [x] done\n- [ ] open'), 'ul[x done | _ open]');
  assert.equal(md('* a\n+ b'), 'ul[a] ¶ ul[b]');
  assert.equal(md('text\n- item'), 'text ¶ ul[item]');
  assert.equal(md('In\n2024. it was'), 'In\n2024. it was', 'a number at a line\'s beginning is no list');
  assert.equal(md('- a\n\n- b\n\nc'), 'ul[a | b] ¶ c');
  assert.equal(md('- ```\n  code\n  ```'), 'ul[code (code)]');
});

test('tables', () => {
  const text = '| a | b |\n|---|:-:|\n| `x|y` | 2 |\n| 3 |\n\nend';
  assert.equal(md(text), 'table[a,b | c(x|y),2 | 3,] ¶ end');
  assert.equal(md('a | b\nno table'), 'a | b\nno table');
});

// Quadratic work on one of these would take minutes.
test('no text overflows the stack or has no end', () => {
  const hostile = [
    '*'.repeat(50_000),
    '*a '.repeat(20_000),
    '_a **b '.repeat(10_000),
    '[' .repeat(20_000),
    '[a](' .repeat(10_000),
    '![' .repeat(20_000),
    '`'.repeat(1_000).replaceAll('``', '` '),
    Array.from({ length: 600 }, (_, at) => '`'.repeat(at + 1)).join(' '),
    '>'.repeat(5_000),
    '> '.repeat(5_000),
    '- '.repeat(5_000),
    `${'  '.repeat(2_000)}- x`,
    Array.from({ length: 2_000 }, (_, at) => `${' '.repeat(at % 400)}- x`).join('\n'),
    `|${'a|'.repeat(5_000)}\n|${'-|'.repeat(5_000)}`,
    '<https://'.repeat(5_000),
    'https://'.repeat(5_000),
    '\\'.repeat(50_000),
    '#'.repeat(50_000),
    '- - - '.repeat(9_000) + 'x',
    `# ${' #'.repeat(20_000)}x`,
  ];
  for (const text of hostile) {
    assert.ok(parseMarkdown(text).length > 0);
  }
});
