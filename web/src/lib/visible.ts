// Makes characters visible that have no shape, or that change how other text looks: a user who approves an operation
// must see all of it, in its order.

/** A part of a text: as it is, or the name of characters that cannot be seen. */
export interface Visible {
  readonly kind: 'text' | 'mark';
  readonly text: string;
}

/** Control characters, and those that hide, join or turn text around. Line ends and tabs are shown by the page itself. */
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu;

/** Whether a text has characters that cannot be seen. */
export function hasUnseen(text: string): boolean {
  return text.search(UNSEEN) >= 0;
}

const NAMES: Record<number, string> = {
  0x00: 'NUL',
  0x07: 'BEL',
  0x08: 'BS',
  0x0d: 'CR',
  0x1b: 'ESC',
  0x7f: 'DEL',
  0xad: 'soft hyphen',
  0x200b: 'zero-width space',
  0x200e: 'left-to-right mark',
  0x200f: 'right-to-left mark',
  0x202a: 'left-to-right embedding',
  0x202b: 'right-to-left embedding',
  0x202c: 'end of direction',
  0x202d: 'left-to-right override',
  0x202e: 'right-to-left override',
  0x2028: 'line separator',
  0x2029: 'paragraph separator',
  0xfeff: 'byte order mark',
};

/** The name of a character that cannot be seen, such as `ESC` or `U+200D`. */
function nameOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
}

/** A text in parts: every character of it is in exactly one, in its order. */
export function visible(text: string): Visible[] {
  const parts: Visible[] = [];
  let end = 0;
  for (const found of text.matchAll(UNSEEN)) {
    // A line of a file with the line ends of Windows looks like any other.
    if (found[0] === '\r' && text[found.index + 1] === '\n') continue;
    if (found.index > end) parts.push({ kind: 'text', text: text.slice(end, found.index) });
    parts.push({ kind: 'mark', text: nameOf(found[0]) });
    end = found.index + found[0].length;
  }
  if (end < text.length) parts.push({ kind: 'text', text: text.slice(end) });
  return parts;
}

/** The same in one text, where no markup is possible. */
export function visibleText(text: string): string {
  return visible(text)
    .map(({ kind, text: part }) => (kind === 'mark' ? `‹${part}›` : part))
    .join('');
}
