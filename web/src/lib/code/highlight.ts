// Colours code: comments, strings, numbers and keywords of common languages. It needs no grammar and makes no mistakes
// that hide text: every character of the code comes back, in its order.

export type TokenKind = 'plain' | 'comment' | 'string' | 'number' | 'keyword' | 'name' | 'added' | 'removed' | 'mark';

export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
}

interface Language {
  readonly pattern: RegExp;
  readonly keywords: ReadonlySet<string>;
}

/** Longer code is shown without colours. */
const CODE_MAX = 60_000;

const words = (text: string) => new Set(text.split(' '));

const LINE_SLASHES = String.raw`(?<comment>\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))`;
const LINE_HASH = String.raw`(?<comment>#[^\n]*)`;
const STRINGS = String.raw`(?<string>"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?|${'`'}(?:[^${'`'}\\]|\\[\s\S])*${'`'}?)`;
const STRINGS_OF_RUST = String.raw`(?<string>r#*"[\s\S]*?"#*|b?"(?:[^"\\]|\\[\s\S])*"?|b?'(?:[^'\\\n]|\\[^\n]{1,8})')`;
const STRINGS_OF_PYTHON = String.raw`(?<string>"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?)`;
const NUMBERS = String.raw`(?<number>\b(?:0[xX][\da-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)\w*)`;
const WORDS = String.raw`(?<word>[A-Za-z_$][\w$]*)`;

function language(parts: readonly string[], keywords: string): Language {
  return { pattern: new RegExp(parts.join('|'), 'g'), keywords: words(keywords) };
}

const SCRIPT = language(
  [LINE_SLASHES, STRINGS, NUMBERS, WORDS],
  'abstract as async await boolean break case catch class const continue debugger default delete do else enum export extends false finally for from function if implements import in instanceof interface is keyof let never new null number of private protected public readonly return satisfies set static string super switch this throw true try type typeof undefined unknown var void while yield',
);
const RUST = language(
  [LINE_SLASHES, STRINGS_OF_RUST, NUMBERS, WORDS],
  'as async await bool break char const continue crate dyn else enum extern f32 f64 false fn for i16 i32 i64 i8 if impl in isize let loop match mod move mut pub ref return self Self static str struct super trait true type u16 u32 u64 u8 unsafe use usize where while',
);
const PYTHON = language(
  [LINE_HASH, STRINGS_OF_PYTHON, NUMBERS, WORDS],
  'False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return self try while with yield',
);
const SHELL = language(
  [String.raw`(?<comment>(?<=^|\s)#[^\n]*)`, STRINGS, NUMBERS, WORDS],
  'case cd do done echo elif else esac exit export fi for function if in local read return set shift source test then trap unset until while',
);
const C = language(
  [LINE_SLASHES, STRINGS, NUMBERS, WORDS],
  'abstract auto bool boolean break byte case catch chan char class const constexpr continue def default defer delete do double else enum extends extern false final finally float for func fun go goto if implements import in inline int interface long map mut namespace new nil null nullptr operator override package private protected public range return select short signed sizeof static string struct super switch template this throw throws true try type typedef union unsigned using val var virtual void volatile when while',
);
const DATA = language([LINE_HASH, LINE_SLASHES, STRINGS, NUMBERS, WORDS].filter((part) => part !== LINE_SLASHES), 'true false null yes no on off');
const JSON_TEXT = language([STRINGS, NUMBERS, WORDS], 'true false null');
const SQL = language(
  [String.raw`(?<comment>--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))`, STRINGS, NUMBERS, WORDS],
  'add all alter and as asc begin between by case commit constraint create default delete desc distinct drop else end exists from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then union unique update using values view when where with',
);
const MARKUP = language(
  [String.raw`(?<comment><!--[\s\S]*?(?:-->|$))`, String.raw`(?<string>"[^"]*"|'[^']*')`, String.raw`(?<tag><\/?[A-Za-z][\w:-]*|\/?>)`],
  '',
);
const STYLES = language([String.raw`(?<comment>\/\*[\s\S]*?(?:\*\/|$))`, STRINGS, NUMBERS, String.raw`(?<word>[@.#-]*[A-Za-z_][\w-]*)`], '');

const LANGUAGES: Record<string, Language> = {};
for (const [names, known] of [
  ['js jsx mjs cjs javascript ts tsx typescript svelte vue', SCRIPT],
  ['rs rust', RUST],
  ['py python', PYTHON],
  ['sh bash zsh shell console dockerfile make makefile', SHELL],
  ['c h cc cpp cxx hpp c++ java kt kotlin go swift scala cs csharp dart php groovy zig', C],
  ['yaml yml toml ini cfg conf properties', DATA],
  ['json jsonc json5', JSON_TEXT],
  ['sql', SQL],
  ['html htm xml svg', MARKUP],
  ['css scss less', STYLES],
  ['rb ruby', PYTHON],
] as const) {
  for (const name of names.split(' ')) LANGUAGES[name] = known;
}

/** The language of a file, by its name. */
export function languageOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase();
  return name.includes('.') ? name.slice(name.lastIndexOf('.') + 1) : name;
}

export function highlight(code: string, name: string): Token[] {
  const lower = name.toLowerCase();
  if (lower === 'diff' || lower === 'patch') return diff(code);
  const known = Object.hasOwn(LANGUAGES, lower) ? LANGUAGES[lower] : undefined;
  if (known === undefined || code.length > CODE_MAX) return [{ kind: 'plain', text: code }];
  const tokens: Token[] = [];
  let end = 0;
  const push = (kind: TokenKind, text: string) => {
    if (text === '') return;
    const last = tokens.at(-1);
    if (last?.kind === kind) tokens[tokens.length - 1] = { kind, text: last.text + text };
    else tokens.push({ kind, text });
  };
  for (const found of code.matchAll(known.pattern)) {
    push('plain', code.slice(end, found.index));
    push(kindOf(found, known, code), found[0]);
    end = found.index + found[0].length;
  }
  push('plain', code.slice(end));
  return tokens;
}

function kindOf(found: RegExpMatchArray, known: Language, code: string): TokenKind {
  const groups = found.groups ?? {};
  if (groups['comment'] !== undefined) return 'comment';
  if (groups['string'] !== undefined) return 'string';
  if (groups['number'] !== undefined) return 'number';
  if (groups['tag'] !== undefined) return 'keyword';
  const word = groups['word'] ?? '';
  if (known.keywords.has(known === SQL ? word.toLowerCase() : word)) return 'keyword';
  const after = code[(found.index ?? 0) + word.length];
  return after === '(' || after === '!' ? 'name' : 'plain';
}

function diff(code: string): Token[] {
  const lines = code.split('\n');
  return lines.map((line, at) => {
    const text = at < lines.length - 1 ? `${line}\n` : line;
    if (/^(@@|diff |index |--- |\+\+\+ )/.test(line)) return { kind: 'mark', text };
    if (line.startsWith('+')) return { kind: 'added', text };
    if (line.startsWith('-')) return { kind: 'removed', text };
    return { kind: 'plain', text };
  });
}
