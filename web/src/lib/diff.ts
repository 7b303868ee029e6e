// A unified diff of one file as lines with their numbers, and the same side by side.

import { highlight, type Token } from './code/highlight';

export type LineKind = 'context' | 'added' | 'removed' | 'note';

export interface DiffLine {
  readonly kind: LineKind;
  /** Its number before and after the change; a line that was added has no number before it. */
  readonly before: number | undefined;
  readonly after: number | undefined;
  readonly text: string;
}

/** A place of a file that was changed, with some lines around it. */
export interface Hunk {
  /** What the diff says about the place, such as the function around it. */
  readonly title: string;
  readonly lines: readonly DiffLine[];
}

export interface ParsedDiff {
  readonly hunks: readonly Hunk[];
  /** What the diff says about the file itself: a new mode, another name, a change that is no text. */
  readonly notes: readonly string[];
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;
const NOTE = /^(old mode|new mode|new file mode|deleted file mode|rename from|rename to|copy from|copy to|similarity index|Binary files|GIT binary patch)/;

export function parseDiff(text: string): ParsedDiff {
  const hunks: { title: string; lines: DiffLine[] }[] = [];
  const notes: string[] = [];
  let before = 0;
  let after = 0;
  // How many lines of the present hunk follow, on each side.
  let old = 0;
  let now = 0;
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  for (const line of lines) {
    const hunk = hunks.at(-1);
    if (hunk !== undefined && (old > 0 || now > 0)) {
      const rest = line.slice(1);
      if (line.startsWith('+')) {
        hunk.lines.push({ kind: 'added', before: undefined, after: after++, text: rest });
        now -= 1;
        continue;
      }
      if (line.startsWith('-')) {
        hunk.lines.push({ kind: 'removed', before: before++, after: undefined, text: rest });
        old -= 1;
        continue;
      }
      if (!line.startsWith('\\')) {
        hunk.lines.push({ kind: 'context', before: before++, after: after++, text: rest });
        old -= 1;
        now -= 1;
        continue;
      }
    }
    if (line.startsWith('\\') && hunk !== undefined) {
      hunk.lines.push({ kind: 'note', before: undefined, after: undefined, text: line.slice(1).trim() });
      continue;
    }
    const found = HUNK.exec(line);
    if (found !== null) {
      before = Number(found[1]);
      after = Number(found[3]);
      old = Number(found[2] ?? 1);
      now = Number(found[4] ?? 1);
      hunks.push({ title: found[5] ?? '', lines: [] });
    } else if (hunk === undefined && NOTE.test(line)) {
      notes.push(line);
    }
  }
  return { hunks, notes };
}

/** A row of two columns; a side without a line is empty. */
export interface DiffRow {
  readonly left: DiffLine | undefined;
  readonly right: DiffLine | undefined;
}

/** The lines of a hunk side by side: lines that were removed beside those that came in their place. */
export function sideBySide(lines: readonly DiffLine[]): DiffRow[] {
  const rows: DiffRow[] = [];
  let removed: DiffLine[] = [];
  let added: DiffLine[] = [];
  const flush = () => {
    for (let at = 0; at < Math.max(removed.length, added.length); at += 1) {
      rows.push({ left: removed[at], right: added[at] });
    }
    removed = [];
    added = [];
  };
  let last: DiffLine | undefined;
  for (const line of lines) {
    if (line.kind === 'removed') {
      if (added.length > 0) flush();
      removed.push(line);
    } else if (line.kind === 'added') {
      added.push(line);
    } else if (line.kind === 'note') {
      // `No newline at end of file` is about the line before it.
      if (last?.kind === 'removed') removed.push(line);
      else if (last?.kind === 'added') added.push(line);
      else rows.push({ left: line, right: line });
    } else {
      flush();
      rows.push({ left: line, right: line });
    }
    last = line;
  }
  flush();
  return rows;
}

/** A part of a line: its colour, and whether it differs from the line beside it. */
export interface Piece extends Token {
  readonly differs: boolean;
}

/** The colours of every line of a hunk. Both sides are read as code of their own, so that a comment ends where it ends. */
export function coloured(lines: readonly DiffLine[], language: string): Map<DiffLine, Piece[]> {
  const result = new Map<DiffLine, Piece[]>();
  const differing = differingParts(lines);
  for (const side of ['removed', 'added'] as const) {
    const shown = lines.filter((line) => line.kind === 'context' || line.kind === side);
    const tokens = linesOf(highlight(shown.map((line) => line.text).join('\n'), language));
    for (const [at, line] of shown.entries()) {
      if (line.kind === 'context' && side === 'added') continue;
      result.set(line, split(tokens[at] ?? [], differing.get(line)));
    }
  }
  return result;
}

function linesOf(tokens: readonly Token[]): Token[][] {
  const lines: Token[][] = [[]];
  for (const { kind, text } of tokens) {
    for (const [at, part] of text.split('\n').entries()) {
      if (at > 0) lines.push([]);
      if (part !== '') lines.at(-1)?.push({ kind, text: part });
    }
  }
  return lines;
}

interface Part {
  readonly from: number;
  readonly until: number;
}

/** What differs between a line that was removed and the one in its place, if they have much in common. */
function differingParts(lines: readonly DiffLine[]): Map<DiffLine, Part> {
  const parts = new Map<DiffLine, Part>();
  for (const { left, right } of sideBySide(lines)) {
    if (left?.kind !== 'removed' || right?.kind !== 'added') continue;
    const [one, other] = [left.text, right.text];
    const most = Math.min(one.length, other.length);
    let from = 0;
    while (from < most && one[from] === other[from]) from += 1;
    let end = 0;
    while (end < most - from && one[one.length - 1 - end] === other[other.length - 1 - end]) end += 1;
    // Indentation alone makes no two lines alike.
    const common = one.slice(0, from).trim().length + one.slice(one.length - end).trim().length;
    if (common * 3 < Math.max(one.trim().length, other.trim().length)) continue;
    parts.set(left, { from, until: one.length - end });
    parts.set(right, { from, until: other.length - end });
  }
  return parts;
}

function split(tokens: readonly Token[], part: Part | undefined): Piece[] {
  if (part === undefined) return tokens.map((token) => ({ ...token, differs: false }));
  const pieces: Piece[] = [];
  let at = 0;
  for (const { kind, text } of tokens) {
    const cuts = [0, part.from - at, part.until - at, text.length].map((cut) => Math.max(0, Math.min(text.length, cut)));
    for (let number = 0; number < 3; number += 1) {
      const piece = text.slice(cuts[number], cuts[number + 1]);
      if (piece !== '') pieces.push({ kind, text: piece, differs: number === 1 });
    }
    at += text.length;
  }
  return pieces;
}
