// Numbers and times as the page shows them, as the command does.

import type { Usage } from '../api/client';

const whole = new Intl.NumberFormat('en');

export function count(value: number): string {
  return whole.format(value);
}

/** A number with its noun: `1 agent`, `3 agents`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A large number in few characters: `999`, `1.2k`, `34k`, `5.6M`. */
export function short(value: number): string {
  if (value < 1_000) return String(value);
  const [scaled, unit] = value < 999_500 ? [value / 1_000, 'k'] : [value / 1_000_000, 'M'];
  return `${scaled < 9.95 ? scaled.toFixed(1) : Math.round(scaled)}${unit}`;
}

export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1_000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${pad(Math.floor(seconds % 60))} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${pad(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function pad(value: number): string {
  return String(value).padStart(2, '0');
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let scaled = value;
  let unit = 0;
  while (scaled >= 1_024 && unit < units.length - 1) {
    scaled /= 1_024;
    unit += 1;
  }
  return `${unit === 0 || scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1)} ${units[unit] ?? ''}`;
}

export function usd(value: number): string {
  if (value === 0) return '$0';
  if (value < 0.0001) return '<$0.0001';
  return `$${value.toFixed(value < 0.1 ? 4 : value < 100 ? 2 : 0)}`;
}

/** What calls cost: what is known, and what calls that were cut off may add. */
export function cost(usage: Usage): string {
  if (usage.usd_at_most === null) return usage.usd_known > 0 ? `≥ ${usd(usage.usd_known)}` : '–';
  if (usage.usd_at_most > usage.usd_known) return `${usd(usage.usd_known)}–${usd(usage.usd_at_most)}`;
  return usd(usage.usd_known);
}

/** Why a cost is shown as it is. */
export function costInWords(usage: Usage): string {
  const words = [`${usd(usage.usd_known)} for calls of known price`];
  if (usage.unpriced_tokens > 0) words.push(`${counted(usage.unpriced_tokens, 'token')} of unknown price`);
  if (usage.cut_off_calls > 0) {
    const calls = counted(usage.cut_off_calls, 'call');
    const most = usage.usd_at_most === null ? '' : `, at most ${usd(usage.usd_at_most)} in total`;
    words.push(`${calls} cut off, so that their usage is unknown${most}`);
  }
  return words.join('; ');
}

/** Input and output of all calls. */
export function tokens(usage: Usage): number {
  return usage.input_tokens + usage.output_tokens;
}

export function tokensInWords(usage: Usage): string {
  const words = [`${count(usage.input_tokens)} in`, `${count(usage.output_tokens)} out`];
  if (usage.cached_tokens > 0) words.push(`${count(usage.cached_tokens)} of the input from a cache`);
  if (usage.cache_write_tokens > 0) words.push(`${count(usage.cache_write_tokens)} written to a cache`);
  if (usage.reasoning_tokens > 0) words.push(`${count(usage.reasoning_tokens)} of the output for reasoning`);
  return words.join(', ');
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const dayOfYear = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });

/** A time of today as `14:03:59`, an earlier one with its day. */
export function time(at: string, now = Date.now()): string {
  const then = new Date(at);
  if (Number.isNaN(then.getTime())) return at;
  const today = new Date(now);
  if (then.toDateString() === today.toDateString()) return clock.format(then);
  const format = then.getFullYear() === today.getFullYear() ? day : dayOfYear;
  return `${format.format(then)} ${clock.format(then).slice(0, 5)}`;
}

/** How long ago something was. */
export function ago(at: string, now: number): string {
  const ms = now - Date.parse(at);
  if (Number.isNaN(ms)) return at;
  return ms < 5_000 ? 'just now' : `${duration(ms - (ms % 1_000)).replace(/ \d+ s$/, '')} ago`;
}

/** The number of an agent in its run: `0` for the root, `2.1` for the first child of the second one. */
export function agentNumber(id: string): string {
  const dot = id.indexOf('.');
  return dot < 0 ? '0' : id.slice(dot + 1);
}

/** The run of an agent. */
export function runOf(agent: string): string {
  return agent.split('.', 1)[0] ?? agent;
}

/** The last parts of a path, which tell it apart. */
export function baseName(path: string): string {
  return path.replace(/\/+$/, '').split('/').pop() || path;
}
