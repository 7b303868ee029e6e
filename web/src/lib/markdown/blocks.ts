// The blocks of Markdown: paragraphs, headings, lists, quotes, tables, code. HTML is text.

import { parseInline, type Inline } from './inline';

export type Alignment = 'left' | 'center' | 'right' | undefined;

export interface ListItem {
  /** Whether it is checked off, if it is an item of a to-do list. */
  readonly checked: boolean | undefined;
  readonly blocks: readonly Block[];
}

export type Block =
  | { readonly kind: 'paragraph'; readonly content: readonly Inline[] }
  | { readonly kind: 'heading'; readonly level: number; readonly content: readonly Inline[] }
  | { readonly kind: 'code'; readonly language: string; readonly text: string }
  | { readonly kind: 'quote'; readonly blocks: readonly Block[] }
  | { readonly kind: 'list'; readonly start: number | undefined; readonly items: readonly ListItem[] }
  | {
      readonly kind: 'table';
      readonly alignments: readonly Alignment[];
      readonly head: readonly (readonly Inline[])[];
      readonly rows: readonly (readonly (readonly Inline[])[])[];
    }
  | { readonly kind: 'rule' };

/** How deep lists and quotes are nested; deeper ones are text. */
const DEPTH_MAX = 12;
/** Longest text that is parsed; the rest is one block of text. */
const TEXT_MAX = 400_000;

const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( +)(.*)|\s*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE_LINE = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

export function parseMarkdown(text: string): Block[] {
  const whole = text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ');
  const blocks = parseLines(whole.slice(0, TEXT_MAX).split('\n'), 0);
  const rest = whole.slice(TEXT_MAX);
  return rest === '' ? blocks : [...blocks, { kind: 'code', language: '', text: rest }];
}

function parseLines(lines: readonly string[], depth: number): Block[] {
  const blocks: Block[] = [];
  let paragraph: string[] = [];
  const flush = () => {
    const joined = paragraph.map((line) => line.trimStart()).join('\n');
    if (joined.trim() !== '') blocks.push({ kind: 'paragraph', content: parseInline(joined.trimEnd()) });
    paragraph = [];
  };
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? '';
    if (line.trim() === '') {
      flush();
      at += 1;
      continue;
    }
    const fence = FENCE.exec(line);
    if (fence !== null) {
      flush();
      at = pushFence(lines, at, fence, blocks);
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading !== null) {
      flush();
      blocks.push({ kind: 'heading', level: heading[1]?.length ?? 1, content: parseInline(heading[2] ?? '') });
      at += 1;
      continue;
    }
    if (paragraph.length > 0 && /^ {0,3}(=+|-+)\s*$/.test(line)) {
      const content = parseInline(paragraph.map((part) => part.trim()).join('\n'));
      paragraph = [];
      blocks.push({ kind: 'heading', level: line.trim().startsWith('=') ? 1 : 2, content });
      at += 1;
      continue;
    }
    if (RULE.test(line)) {
      flush();
      blocks.push({ kind: 'rule' });
      at += 1;
      continue;
    }
    if (depth < DEPTH_MAX && QUOTE.test(line)) {
      flush();
      const inner: string[] = [];
      while (at < lines.length && QUOTE.test(lines[at] ?? '')) {
        inner.push(QUOTE.exec(lines[at] ?? '')?.[1] ?? '');
        at += 1;
      }
      blocks.push({ kind: 'quote', blocks: parseLines(inner, depth + 1) });
      continue;
    }
    const item = ITEM.exec(line);
    if (depth < DEPTH_MAX && item !== null && (paragraph.length === 0 || mayInterrupt(item))) {
      flush();
      at = pushList(lines, at, depth, blocks);
      continue;
    }
    if (paragraph.length === 0 && /^ {4}/.test(line)) {
      const code: string[] = [];
      while (at < lines.length && (/^ {4}/.test(lines[at] ?? '') || (lines[at] ?? '').trim() === '')) {
        code.push((lines[at] ?? '').slice(4));
        at += 1;
      }
      blocks.push({ kind: 'code', language: '', text: code.join('\n').trimEnd() });
      continue;
    }
    if (paragraph.length === 0 && line.includes('|') && TABLE_LINE.test(lines[at + 1] ?? '')) {
      const after = pushTable(lines, at, blocks);
      if (after > at) {
        at = after;
        continue;
      }
    }
    paragraph.push(line);
    at += 1;
  }
  flush();
  return blocks;
}

function pushFence(lines: readonly string[], from: number, fence: RegExpExecArray, blocks: Block[]): number {
  const [, indent = '', marks = '```', info = ''] = fence;
  const end = new RegExp(`^ {0,3}\\${marks[0] ?? '`'}{${marks.length},}\\s*$`);
  const code: string[] = [];
  let at = from + 1;
  while (at < lines.length && !end.test(lines[at] ?? '')) {
    const line = lines[at] ?? '';
    code.push(line.startsWith(indent) ? line.slice(indent.length) : line.trimStart());
    at += 1;
  }
  blocks.push({ kind: 'code', language: info.trim().split(/\s+/)[0] ?? '', text: code.join('\n') });
  return at + 1;
}

/** A list ends a paragraph only if it begins with a text, and a numbered one with 1. */
function mayInterrupt(item: RegExpExecArray): boolean {
  const marker = item[2] ?? '';
  return (item[4] ?? '') !== '' && (!/\d/.test(marker) || /^1[.)]$/.test(marker));
}

function pushList(lines: readonly string[], from: number, depth: number, blocks: Block[]): number {
  const kindOf = (marker: string) => marker.at(-1) ?? '';
  const first = ITEM.exec(lines[from] ?? '');
  const marker = first?.[2] ?? '-';
  const items: ListItem[] = [];
  let at = from;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at] ?? '');
    if (item === null || kindOf(item[2] ?? '') !== kindOf(marker) || RULE.test(lines[at] ?? '')) break;
    const [, indent = '', mark = '', gap = ' ', text = ''] = item;
    const width = indent.length + mark.length + (gap.length > 4 ? 1 : gap.length);
    const inner = [gap.length > 4 ? gap.slice(1) + text : text];
    at += 1;
    while (at < lines.length) {
      const line = lines[at] ?? '';
      if (line.trim() === '') {
        // A blank line belongs to the item if what comes after it does.
        const next = lines.slice(at + 1, at + 3).find((later) => later.trim() !== '');
        if (next === undefined || leading(next) < width) break;
        inner.push('');
      } else if (leading(line) >= width) {
        inner.push(line.slice(width));
      } else if (ITEM.test(line) || QUOTE.test(line) || FENCE.test(line) || HEADING.test(line) || inner.at(-1) === '') {
        break;
      } else {
        inner.push(line.trimStart());
      }
      at += 1;
    }
    const todo = /^\[([ xX])\]\s+/.exec(inner[0] ?? '');
    if (todo !== null) inner[0] = (inner[0] ?? '').slice(todo[0].length);
    const checked = todo === null ? undefined : todo[1] !== ' ';
    items.push({ checked, blocks: parseLines(inner, depth + 1) });
    while ((lines[at] ?? '').trim() === '' && at < lines.length && ITEM.test(lines[at + 1] ?? '')) at += 1;
  }
  const start = /\d/.test(marker) ? Number.parseInt(marker, 10) : undefined;
  blocks.push({ kind: 'list', start, items });
  return at;
}

function leading(line: string): number {
  return line.length - line.trimStart().length;
}

function pushTable(lines: readonly string[], from: number, blocks: Block[]): number {
  const head = cellsOf(lines[from] ?? '');
  const marks = cellsOf(lines[from + 1] ?? '');
  if (head.length !== marks.length) return from;
  const alignments = marks.map((mark): Alignment => {
    const [left, right] = [mark.startsWith(':'), mark.endsWith(':')];
    return left && right ? 'center' : right ? 'right' : left ? 'left' : undefined;
  });
  const rows: Inline[][][] = [];
  let at = from + 2;
  while (at < lines.length && (lines[at] ?? '').includes('|')) {
    const cells = cellsOf(lines[at] ?? '').slice(0, head.length);
    while (cells.length < head.length) cells.push('');
    rows.push(cells.map((cell) => parseInline(cell)));
    at += 1;
  }
  blocks.push({ kind: 'table', alignments, head: head.map((cell) => parseInline(cell)), rows });
  return at;
}

/** The cells of a line; a `\|` and one in code separate nothing. */
function cellsOf(line: string): string[] {
  const cells: string[] = [];
  let cell = '';
  let inCode = false;
  const text = line.trim().replace(/^\|/, '');
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at] ?? '';
    if (letter === '\\' && text[at + 1] === '|') {
      cell += '|';
      at += 1;
    } else if (letter === '|' && !inCode) {
      cells.push(cell.trim());
      cell = '';
    } else {
      if (letter === '`') inCode = !inCode;
      cell += letter;
    }
  }
  if (cell.trim() !== '' || !text.endsWith('|')) cells.push(cell.trim());
  return cells;
}
