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
  /** What the diff says about the file itself: a new mode, a change that is no text. */
  readonly notes: readonly string[];
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;
/** What is said about the file beside its lines. Its names and what happened to it are in the list of files. */
const NOTE = /^(old mode|new mode|Binary files|GIT binary patch)/;

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
    let [left, right] = [0, 0];
    // Lines between two pairs are in the order of the diff, beside each other where both sides have one.
    const upTo = (leftEnd: number, rightEnd: number) => {
      while (left < leftEnd || right < rightEnd) {
        rows.push({
          left: left < leftEnd ? removed[left] : undefined,
          right: right < rightEnd ? added[right] : undefined,
        });
        left = Math.min(left + 1, leftEnd);
        right = Math.min(right + 1, rightEnd);
      }
    };
    for (const [one, other] of pairsOf(removed, added)) {
      upTo(one, other);
      upTo(one + 1, other + 1);
    }
    upTo(removed.length, added.length);
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

/** Above this number of lines on one side, the lines of a place are not compared. */
const COMPARED_MAX = 60;

/** Lines that were removed with those that came in their place, as their indexes in both lists: the pairs with most in common. */
function pairsOf(removed: readonly DiffLine[], added: readonly DiffLine[]): [number, number][] {
  const [rows, columns] = [removed.length, added.length];
  if (rows === 0 || columns === 0 || rows > COMPARED_MAX || columns > COMPARED_MAX) return [];
  const alike = removed.map((one) => added.map((other) => likeness(one.text, other.text)));
  // The most that the rest of both lists has in common, from each pair of places on.
  const best = Array.from({ length: rows + 1 }, () => new Array<number>(columns + 1).fill(0));
  const at = (row: number, column: number) => best[row]?.[column] ?? 0;
  for (let row = rows - 1; row >= 0; row -= 1) {
    for (let column = columns - 1; column >= 0; column -= 1) {
      const pair = alike[row]?.[column] ?? 0;
      const value = Math.max(at(row + 1, column), at(row, column + 1), pair > 0 ? pair + at(row + 1, column + 1) : 0);
      const line = best[row];
      if (line !== undefined) line[column] = value;
    }
  }
  const pairs: [number, number][] = [];
  for (let [row, column] = [0, 0]; row < rows && column < columns; ) {
    const pair = alike[row]?.[column] ?? 0;
    if (pair > 0 && at(row, column) === pair + at(row + 1, column + 1)) pairs.push([row++, column++]);
    else if (at(row, column) === at(row + 1, column)) row += 1;
    else column += 1;
  }
  return pairs;
}

/** What two lines have in common at their beginnings and ends. */
function common(one: string, other: string): { begin: number; end: number } {
  const most = Math.min(one.length, other.length);
  let begin = 0;
  while (begin < most && one[begin] === other[begin]) begin += 1;
  let end = 0;
  while (end < most - begin && one[one.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  return { begin, end };
}

/** How much of two lines is the same, from 0 to 1; 0 if that is too little to show them as one line that was changed. */
function likeness(one: string, other: string): number {
  const { begin, end } = common(one, other);
  // Indentation alone makes no two lines alike.
  const same = one.slice(0, begin).trim().length + one.slice(one.length - end).trim().length;
  const part = same / Math.max(1, one.trim().length, other.trim().length);
  return part >= 1 / 3 ? part : 0;
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
    if (likeness(left.text, right.text) === 0) continue;
    const { begin: from, end } = common(left.text, right.text);
    parts.set(left, { from, until: left.text.length - end });
    parts.set(right, { from, until: right.text.length - end });
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
