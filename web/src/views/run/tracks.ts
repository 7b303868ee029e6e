// The timeline: what is where, and how it is drawn. One track for each row of the tree.

import type { Activity, AgentTrack, EffectSpan, RunTimeline } from '../../api/client';

/** The part of time that is shown, in milliseconds since the run started. */
export interface Range {
  readonly from: number;
  readonly until: number;
}

export interface TrackRow {
  readonly track: AgentTrack | undefined;
  readonly isSelected: boolean;
}

export interface Picture {
  readonly width: number;
  readonly height: number;
  /** The height of the part with the axis, above the tracks. */
  readonly head: number;
  readonly rowHeight: number;
  /** The first of the tracks, and how far it is scrolled out. */
  readonly top: number;
  readonly rows: readonly TrackRow[];
  readonly range: Range;
  /** Until when the run is known. */
  readonly now: number;
  /** A time to mark, such as that of an event of the past. */
  readonly mark: number | undefined;
  readonly pointer: number | undefined;
  readonly busy: readonly Busy[];
}

/** How many agents were at work from a time on. */
export interface Busy {
  readonly from: number;
  readonly agents: number;
}

/** What the pointer is on. */
export interface Hit {
  readonly words: string;
  readonly from: number;
  readonly until: number;
  readonly failed: boolean;
}

const ACTIVITY_WORDS: Record<Activity, string> = {
  waiting: 'waits',
  model: 'model writes',
  tools: 'tools run',
  approver: 'waits for an answer',
  integration: 'work is integrated',
};

const ACTIVITY_COLOURS: Record<Activity, string> = {
  waiting: 'wait',
  model: 'model',
  tools: 'tools',
  approver: 'approver',
  integration: 'integration',
};

const EFFECT_COLOURS: Record<EffectSpan['kind'], string> = {
  model: 'model',
  tool: 'tools',
  provider_wait: 'approver',
  check: 'check',
  merge: 'integration',
};

export const EFFECT_WORDS: Record<EffectSpan['kind'], string> = {
  model: 'model',
  tool: 'tool',
  provider_wait: 'waits for the provider',
  check: 'check',
  merge: 'merge',
};

/** The entries of the legend: a colour and its meaning. */
export const LEGEND: readonly (readonly [string, string])[] = [
  ['model', 'model'],
  ['tools', 'tools'],
  ['approver', 'waits for an answer or a provider'],
  ['check', 'check'],
  ['integration', 'merge'],
  ['failed', 'failed'],
];

export type Colours = Record<string, string>;

/** The colours of the theme, for a canvas. */
export function coloursOf(element: Element): Colours {
  const style = getComputedStyle(element);
  const spans = ['model', 'tools', 'approver', 'wait', 'integration', 'check', 'failed'];
  const colours: Colours = {};
  for (const name of spans) colours[name] = style.getPropertyValue(`--span-${name}`);
  for (const name of ['panel', 'line', 'text', 'muted', 'accent', 'selected', 'raised', 'warn']) {
    colours[name] = style.getPropertyValue(`--${name}`);
  }
  colours['font'] = style.getPropertyValue('--font');
  return colours;
}

/** How many agents were at work at the same time, over the whole run. */
export function busyOf(timeline: RunTimeline, now: number): Busy[] {
  const steps: [number, number][] = [];
  for (const track of timeline.tracks) {
    for (const [at, span] of track.spans.entries()) {
      if (span.activity !== 'model' && span.activity !== 'tools') continue;
      const until = track.spans[at + 1]?.from_ms ?? track.until_ms ?? now;
      if (until <= span.from_ms) continue;
      steps.push([span.from_ms, 1], [until, -1]);
    }
  }
  steps.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  const busy: Busy[] = [];
  let agents = 0;
  for (const [from, change] of steps) {
    agents += change;
    const last = busy.at(-1);
    if (last?.from === from) busy[busy.length - 1] = { from, agents };
    else busy.push({ from, agents });
  }
  return busy;
}

/** A step of the axis of about this length: 1, 2 or 5 times a power of ten, or a part of a minute or an hour. */
export function niceStep(about: number): number {
  const minute = 60_000;
  const steps = [15_000, 30_000, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, 60 * minute];
  if (about > 10_000) {
    return steps.find((step) => step >= about) ?? 60 * minute * Math.ceil(about / (60 * minute));
  }
  const power = 10 ** Math.floor(Math.log10(Math.max(about, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= about) ?? 10 * power;
}

export function tickWords(ms: number, step: number): string {
  if (ms === 0) return '0';
  if (ms < 60_000 || step < 1_000) {
    const digits = step >= 1_000 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3;
    return `${(ms / 1_000).toFixed(digits)} s`;
  }
  const seconds = Math.round(ms / 1_000);
  const [hours, minutes, rest] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (value: number) => String(value).padStart(2, '0');
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** Effects that run at the same time are below each other: for each one its level, and the number of levels. */
function levelsOf(effects: readonly EffectSpan[]): { levels: number[]; count: number } {
  const order = effects.map((_, at) => at).sort((one, other) => (effects[one]?.from_ms ?? 0) - (effects[other]?.from_ms ?? 0));
  const ends: number[] = [];
  const levels = new Array<number>(effects.length).fill(0);
  for (const at of order) {
    const effect = effects[at];
    if (effect === undefined) continue;
    let level = ends.findIndex((end) => end <= effect.from_ms);
    if (level < 0) level = ends.length < LEVELS_MAX ? ends.length : LEVELS_MAX - 1;
    ends[level] = Math.max(ends[level] ?? 0, effect.until_ms);
    levels[at] = level;
  }
  return { levels, count: Math.max(1, ends.length) };
}

const LEVELS_MAX = 4;
const BAND = 3;
const LABEL_MIN = 34;
const levelCache = new WeakMap<AgentTrack, { levels: number[]; count: number }>();

function cachedLevels(track: AgentTrack): { levels: number[]; count: number } {
  let known = levelCache.get(track);
  if (known === undefined) {
    known = levelsOf(track.effects);
    levelCache.set(track, known);
  }
  return known;
}

export function xOf(time: number, range: Range, width: number): number {
  return ((time - range.from) / (range.until - range.from)) * width;
}

export function timeOf(x: number, range: Range, width: number): number {
  return range.from + (x / width) * (range.until - range.from);
}

/** Where the bar of an effect is in its track. */
function barOf(level: number, count: number, rowHeight: number): { y: number; height: number } {
  const room = rowHeight - BAND - 8;
  const height = Math.max(2, room / count - (count > 1 ? 1 : 0));
  return { y: 3 + (room / count) * level, height };
}

export function draw(context: CanvasRenderingContext2D, picture: Picture, colours: Colours): void {
  const { width, height, head, range, rowHeight } = picture;
  context.clearRect(0, 0, width, height);
  context.save();
  context.beginPath();
  context.rect(0, head, width, height - head);
  context.clip();
  drawGrid(context, picture, colours);
  for (const [at, row] of picture.rows.entries()) {
    const y = head + picture.top + at * rowHeight;
    if (row.isSelected) {
      context.fillStyle = colours['selected'] ?? '';
      context.fillRect(0, y, width, rowHeight);
    }
    context.fillStyle = colours['line'] ?? '';
    context.fillRect(0, y + rowHeight - 1, width, 1);
    if (row.track !== undefined) drawTrack(context, row.track, y, picture, colours);
  }
  if (picture.mark !== undefined) {
    // What came later is there, but pale.
    const x = Math.max(0, xOf(picture.mark, range, width));
    context.fillStyle = colours['panel'] ?? '';
    context.globalAlpha = 0.65;
    context.fillRect(x, head, width - x, height - head);
    context.globalAlpha = 1;
  }
  context.restore();
  drawHead(context, picture, colours);
  const line = (time: number, colour: string, from: number) => {
    const x = Math.round(xOf(time, range, width));
    if (x < 0 || x > width) return;
    context.fillStyle = colour;
    context.fillRect(x, from, 1, height - from);
  };
  if (picture.pointer !== undefined) line(timeOf(picture.pointer, range, width), colours['muted'] ?? '', 0);
  if (picture.mark !== undefined) line(picture.mark, colours['warn'] ?? '', 0);
}

function ticks(picture: Picture): { step: number; times: number[] } {
  const { range, width } = picture;
  const step = niceStep(((range.until - range.from) / width) * 90);
  const times: number[] = [];
  for (let time = Math.ceil(range.from / step) * step; time <= range.until; time += step) times.push(time);
  return { step, times };
}

function drawGrid(context: CanvasRenderingContext2D, picture: Picture, colours: Colours): void {
  context.fillStyle = colours['line'] ?? '';
  context.globalAlpha = 0.6;
  for (const time of ticks(picture).times) {
    context.fillRect(Math.round(xOf(time, picture.range, picture.width)), picture.head, 1, picture.height);
  }
  context.globalAlpha = 1;
}

/** The axis, and above it how many agents are at work. */
function drawHead(context: CanvasRenderingContext2D, picture: Picture, colours: Colours): void {
  const { width, head, range } = picture;
  context.fillStyle = colours['panel'] ?? '';
  context.fillRect(0, 0, width, head);
  const most = picture.busy.reduce((known, { agents }) => Math.max(known, agents), 1);
  const room = head - 20;
  context.fillStyle = colours['model'] ?? '';
  context.globalAlpha = 0.35;
  context.beginPath();
  context.moveTo(0, room);
  let level = 0;
  let x = 0;
  for (const { from, agents } of picture.busy) {
    const next = Math.min(width, Math.max(0, xOf(from, range, width)));
    const y = room - (level / most) * (room - 4);
    if (next > x) {
      context.lineTo(x, y);
      context.lineTo(next, y);
      x = next;
    }
    level = agents;
    if (from > range.until) break;
  }
  const end = Math.min(width, Math.max(x, xOf(picture.now, range, width)));
  context.lineTo(x, room - (level / most) * (room - 4));
  context.lineTo(end, room - (level / most) * (room - 4));
  context.lineTo(end, room);
  context.closePath();
  context.fill();
  context.globalAlpha = 1;
  context.fillStyle = colours['line'] ?? '';
  context.fillRect(0, head - 1, width, 1);
  context.font = `10.5px ${colours['font'] ?? 'sans-serif'}`;
  context.textBaseline = 'alphabetic';
  const { step, times } = ticks(picture);
  for (const time of times) {
    const at = Math.round(xOf(time, range, width));
    context.fillStyle = colours['line'] ?? '';
    context.fillRect(at, head - 6, 1, 6);
    const words = tickWords(time, step);
    const long = context.measureText(words).width;
    context.fillStyle = colours['muted'] ?? '';
    if (at + 3 + long < width) context.fillText(words, at + 3, head - 6);
  }
}

function drawTrack(
  context: CanvasRenderingContext2D,
  track: AgentTrack,
  y: number,
  picture: Picture,
  colours: Colours,
): void {
  const { range, width, rowHeight, now } = picture;
  const end = track.until_ms ?? now;
  // Below: what the agent does all the time. Above: its effects.
  for (const [at, span] of track.spans.entries()) {
    const until = Math.min(track.spans[at + 1]?.from_ms ?? end, Math.max(end, span.from_ms));
    if (until < range.from || span.from_ms > range.until) continue;
    const left = Math.max(0, xOf(span.from_ms, range, width));
    const right = Math.min(width, xOf(until, range, width));
    context.fillStyle = colours[ACTIVITY_COLOURS[span.activity]] ?? '';
    context.fillRect(left, y + rowHeight - BAND - 3, Math.max(1, right - left), BAND);
    // What has not ended is no effect yet.
    if (at === track.spans.length - 1 && track.until_ms === null && span.activity !== 'waiting') {
      const { y: top, height } = barOf(0, 1, rowHeight);
      context.globalAlpha = 0.4;
      context.fillRect(left, y + top, Math.max(1, right - left), height);
      context.globalAlpha = 1;
    }
  }
  const { levels, count } = cachedLevels(track);
  context.font = `10.5px ${colours['font'] ?? 'sans-serif'}`;
  context.textBaseline = 'middle';
  // Effects that are too short to be seen apart are drawn once.
  let drawn = -1;
  for (const [at, effect] of track.effects.entries()) {
    if (effect.until_ms < range.from || effect.from_ms > range.until) continue;
    const left = xOf(effect.from_ms, range, width);
    const right = Math.max(left + 1.5, xOf(effect.until_ms, range, width));
    if (count === 1 && right <= drawn) continue;
    drawn = Math.ceil(right);
    const { y: top, height } = barOf(levels[at] ?? 0, count, rowHeight);
    context.fillStyle = colours[effect.failed ? 'failed' : EFFECT_COLOURS[effect.kind]] ?? '';
    const [from, until] = [Math.max(-2, left), Math.min(width + 2, right)];
    context.fillRect(from, y + top, until - from, height);
    if (until - from > LABEL_MIN && height >= 11) {
      context.save();
      context.beginPath();
      context.rect(from, y + top, until - from - 3, height);
      context.clip();
      context.fillStyle = '#ffffff';
      context.fillText(effect.name, from + 4, y + top + height / 2 + 0.5);
      context.restore();
    }
  }
}

/** What is at a place of a track. */
export function hit(track: AgentTrack, time: number, y: number, picture: Picture): Hit | undefined {
  const { rowHeight, now, range, width } = picture;
  const { levels, count } = cachedLevels(track);
  const near = ((range.until - range.from) / width) * 2;
  let found: EffectSpan | undefined;
  for (const [at, effect] of track.effects.entries()) {
    if (time < effect.from_ms - near || time > effect.until_ms + near) continue;
    const { y: top, height } = barOf(levels[at] ?? 0, count, rowHeight);
    if (count > 1 && (y < top - 1 || y > top + height + 1)) continue;
    const isShorter = found === undefined || effect.until_ms - effect.from_ms < found.until_ms - found.from_ms;
    if (isShorter) found = effect;
  }
  if (found !== undefined) {
    const words = found.kind === 'tool' || found.kind === 'model' ? found.name : `${EFFECT_WORDS[found.kind]}: ${found.name}`;
    return { words, from: found.from_ms, until: found.until_ms, failed: found.failed };
  }
  const at = track.spans.findLastIndex((span) => span.from_ms <= time);
  const span = track.spans[at];
  const until = track.spans[at + 1]?.from_ms ?? track.until_ms ?? now;
  if (span === undefined || time > until) return undefined;
  return { words: ACTIVITY_WORDS[span.activity], from: span.from_ms, until, failed: false };
}

/** The range after a zoom around a time: below 1 it comes nearer. */
export function zoomed(range: Range, around: number, factor: number, whole: Range): Range {
  const length = Math.min(whole.until - whole.from, Math.max(5, (range.until - range.from) * factor));
  const part = (around - range.from) / (range.until - range.from);
  return inside({ from: around - part * length, until: around - part * length + length }, whole);
}

/** A range of the same length within the whole one. */
export function inside(range: Range, whole: Range): Range {
  const length = Math.min(range.until - range.from, whole.until - whole.from);
  const from = Math.max(whole.from, Math.min(range.from, whole.until - length));
  return { from, until: from + length };
}
