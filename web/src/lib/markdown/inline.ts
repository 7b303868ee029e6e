// The inline part of Markdown: emphasis, code, links. What is not understood stays text; HTML is text.

export type Inline =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'code'; readonly text: string }
  | { readonly kind: 'strong' | 'em' | 'del'; readonly children: readonly Inline[] }
  | { readonly kind: 'link'; readonly href: string; readonly children: readonly Inline[] }
  | { readonly kind: 'picture'; readonly src: string; readonly alt: string }
  | { readonly kind: 'break' };

/** A run of `*`, `_` or `~` that may open or close emphasis. */
interface Delimiter {
  readonly mark: string;
  count: number;
  readonly opens: boolean;
  readonly closes: boolean;
}

/** A piece while it is read: a finished one, or marks that may become emphasis. */
type Piece = { readonly inline: Inline } | { readonly delimiter: Delimiter };

/** Longest text of a link, and longest address. */
const LABEL_MAX = 1_000;
const ADDRESS_MAX = 2_000;
/** Longest line of delimiters that is looked at for emphasis; in a longer one, marks stay text. */
const DELIMITERS_MAX = 400;

const ESCAPABLE = /[!-/:-@[-`{-~]/;
const BARE = /^https?:\/\/[^\s<>"'`)\]]+/;

export function parseInline(text: string, mayLink = true): Inline[] {
  const pieces: Piece[] = [];
  let plain = '';
  let at = 0;
  const flush = () => {
    if (plain !== '') pieces.push({ inline: { kind: 'text', text: plain } });
    plain = '';
  };
  const push = (inline: Inline, end: number) => {
    flush();
    pieces.push({ inline });
    at = end;
  };
  // A text without a closing mark is searched for it once, not at every opening mark.
  const ticksWithoutEnd = new Set<number>();

  while (at < text.length) {
    const letter = text[at] ?? '';
    if (letter === '\\' && ESCAPABLE.test(text[at + 1] ?? '')) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    if (letter === '\\' && text[at + 1] === '\n') {
      push({ kind: 'break' }, at + 2);
      continue;
    }
    if (letter === '\n') {
      if (plain.endsWith('  ')) {
        plain = plain.trimEnd();
        push({ kind: 'break' }, at + 1);
      } else {
        plain += '\n';
        at += 1;
      }
      continue;
    }
    if (letter === '`') {
      const ticks = runLength(text, at);
      const end = ticksWithoutEnd.has(ticks) ? -1 : closingTicks(text, at + ticks, ticks);
      if (end >= 0) {
        push({ kind: 'code', text: codeText(text.slice(at + ticks, end)) }, end + ticks);
      } else {
        ticksWithoutEnd.add(ticks);
        plain += text.slice(at, at + ticks);
        at += ticks;
      }
      continue;
    }
    if (letter === '!' && text[at + 1] === '[') {
      const link = linkAt(text, at + 1);
      if (link !== undefined) {
        push({ kind: 'picture', src: link.href, alt: link.label }, link.end);
        continue;
      }
    }
    if (letter === '[' && mayLink) {
      const link = linkAt(text, at);
      if (link !== undefined) {
        push({ kind: 'link', href: link.href, children: parseInline(link.label, false) }, link.end);
        continue;
      }
    }
    if (letter === '<' && mayLink) {
      const found = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/.exec(text.slice(at, at + ADDRESS_MAX + 20));
      if (found !== null) {
        const href = found[1] ?? '';
        push({ kind: 'link', href, children: [{ kind: 'text', text: href }] }, at + found[0].length);
        continue;
      }
    }
    if (letter === 'h' && mayLink && !isWord(text[at - 1])) {
      const found = BARE.exec(text.slice(at, at + ADDRESS_MAX));
      if (found !== null) {
        const href = found[0].replace(/[.,:;!?*_~]+$/, '');
        push({ kind: 'link', href, children: [{ kind: 'text', text: href }] }, at + href.length);
        continue;
      }
    }
    if (letter === '*' || letter === '_' || letter === '~') {
      const count = runLength(text, at);
      flush();
      pieces.push({ delimiter: delimiterOf(text, at, count, letter) });
      at += count;
      continue;
    }
    plain += letter;
    at += 1;
  }
  flush();
  return emphasised(pieces);
}

function runLength(text: string, at: number): number {
  let end = at;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

function closingTicks(text: string, from: number, count: number): number {
  let at = from;
  while (at < text.length) {
    const next = text.indexOf('`', at);
    if (next < 0) return -1;
    const length = runLength(text, next);
    if (length === count) return next;
    at = next + length;
  }
  return -1;
}

function codeText(text: string): string {
  const line = text.replace(/\n/g, ' ');
  return line.startsWith(' ') && line.endsWith(' ') && line.trim() !== '' ? line.slice(1, -1) : line;
}

function isWord(letter: string | undefined): boolean {
  return letter !== undefined && /[\p{L}\p{N}_]/u.test(letter);
}

function isSpace(letter: string | undefined): boolean {
  return letter === undefined || /\s/.test(letter);
}

function delimiterOf(text: string, at: number, count: number, mark: string): Delimiter {
  const before = text[at - 1];
  const after = text[at + count];
  const leads = !isSpace(after) && (isWord(after) || isSpace(before) || !isWord(before));
  const ends = !isSpace(before) && (isWord(before) || isSpace(after) || !isWord(after));
  const inWord = mark === '_' && isWord(before) && isWord(after);
  const isUsed = mark !== '~' || count === 2;
  return { mark, count, opens: leads && !inWord && isUsed, closes: ends && !inWord && isUsed };
}

/** `[label](address)` from its bracket. */
function linkAt(text: string, at: number): { label: string; href: string; end: number } | undefined {
  let depth = 0;
  let close = -1;
  const last = Math.min(text.length, at + LABEL_MAX);
  for (let here = at; here < last; here += 1) {
    const letter = text[here];
    if (letter === '\\') here += 1;
    else if (letter === '[') depth += 1;
    else if (letter === ']') {
      depth -= 1;
      if (depth === 0) {
        close = here;
        break;
      }
    }
  }
  if (close < 0 || text[close + 1] !== '(') return undefined;
  const rest = text.slice(close + 2, close + 2 + ADDRESS_MAX);
  const found = /^\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(rest);
  if (found === null) return undefined;
  const href = (found[1] ?? found[2] ?? '').replace(/\\([!-/:-@[-`{-~])/g, '$1');
  return { label: text.slice(at + 1, close), href, end: close + 2 + found[0].length };
}

/** Turns matching marks into emphasis; the others are text. */
function emphasised(pieces: readonly Piece[]): Inline[] {
  interface Open {
    readonly delimiter: Delimiter;
    /** Where its content begins in `out`. */
    readonly from: number;
  }
  const out: Inline[] = [];
  const stack: Open[] = [];
  const isTooMuch = pieces.filter((piece) => 'delimiter' in piece).length > DELIMITERS_MAX;
  const asText = (mark: string, count: number) => {
    if (count > 0) out.push({ kind: 'text', text: mark.repeat(count) });
  };

  for (const piece of pieces) {
    if ('inline' in piece) {
      out.push(piece.inline);
      continue;
    }
    const closer = piece.delimiter;
    if (isTooMuch) {
      asText(closer.mark, closer.count);
      continue;
    }
    while (closer.closes && closer.count > 0) {
      const at = stack.findLastIndex(({ delimiter }) => delimiter.mark === closer.mark && delimiter.count > 0);
      const opener = stack[at];
      if (opener === undefined) break;
      // Marks between the two have no partner.
      stack.length = at + 1;
      const width = closer.mark === '~' || (opener.delimiter.count >= 2 && closer.count >= 2) ? 2 : 1;
      const children = merged(out.splice(opener.from));
      const kind = closer.mark === '~' ? 'del' : width === 2 ? 'strong' : 'em';
      opener.delimiter.count -= width;
      closer.count -= width;
      // The marks of the opener are in `out` as a text before its content.
      const marks = out[opener.from - 1];
      if (marks?.kind === 'text') out[opener.from - 1] = { kind: 'text', text: marks.text.slice(width) };
      out.push({ kind, children });
      if (opener.delimiter.count === 0) stack.pop();
    }
    if (closer.opens && closer.count > 0) {
      asText(closer.mark, closer.count);
      stack.push({ delimiter: closer, from: out.length });
    } else {
      asText(closer.mark, closer.count);
    }
  }
  return merged(out);
}

/** Joins texts that follow each other. */
function merged(list: readonly Inline[]): Inline[] {
  const out: Inline[] = [];
  for (const inline of list) {
    const last = out.at(-1);
    if (inline.kind === 'text' && last?.kind === 'text') {
      out[out.length - 1] = { kind: 'text', text: last.text + inline.text };
    } else if (inline.kind !== 'text' || inline.text !== '') {
      out.push(inline);
    }
  }
  return out;
}
