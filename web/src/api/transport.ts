// How the generated client talks to its server: requests, answers that the page has already, problems, streams.

import type { Problem } from './client';

/** What a caller may add to a request. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** With the key of an earlier request, the server gives its answer and does nothing a second time. */
  idempotencyKey?: string | undefined;
}

/** An answer that is an error. */
export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = 'ApiError';
  }
}

/** The server did not answer: it is stopped, or the network is gone. */
export class UnreachableError extends Error {
  constructor() {
    super('the server does not answer');
    this.name = 'UnreachableError';
  }
}

export type QueryValue = string | number | readonly string[] | undefined;

/** Answers that the page keeps to recognise them by their ETags: the same object means that nothing changed. */
const KNOWN_MAX = 64;
const known = new Map<string, { tag: string; value: unknown }>();

/** Reports every answer and every failure to reach the server, so that the page can show its connection. */
type Observer = (reached: boolean, status: number) => void;
let observer: Observer = () => undefined;
export function observe(by: Observer): void {
  observer = by;
}

/** One part of a path. */
export function part(text: string): string {
  // A browser takes `.` and `..` out of a path, also when they are encoded: no run and no agent has such a name.
  return /^\.{0,2}$/.test(text) ? '-' : encodeURIComponent(text);
}

export function url(path: string, query: object): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query) as [string, QueryValue][]) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) given.append(name, String(one));
  }
  const text = given.toString();
  return text === '' ? path : `${path}?${text}`;
}

export async function get<T>(path: string, query: object, options: CallOptions = {}): Promise<T> {
  const address = url(path, query);
  // The browser sends the ETag of what it has, and answers from its cache if the server says that nothing changed.
  const response = await send(address, { signal: options.signal ?? null });
  const tag = response.headers.get('ETag');
  const before = known.get(address);
  if (tag !== null && before?.tag === tag) {
    void response.body?.cancel();
    return before.value as T;
  }
  const value = (await response.json()) as T;
  if (tag !== null) {
    known.delete(address);
    known.set(address, { tag, value });
    for (const oldest of known.keys()) {
      if (known.size <= KNOWN_MAX) break;
      known.delete(oldest);
    }
  }
  return value;
}

export async function getText(path: string, query: object, options: CallOptions = {}): Promise<string> {
  return (await send(url(path, query), { signal: options.signal ?? null })).text();
}

export async function post<T>(path: string, body: object, options: CallOptions = {}): Promise<T> {
  const headers: Record<string, string> = { 'Content-Type': 'application/json' };
  if (options.idempotencyKey !== undefined) headers['Idempotency-Key'] = options.idempotencyKey;
  const sent = { method: 'POST', headers, body: JSON.stringify(body), signal: options.signal ?? null };
  return (await send(path, sent)).json() as Promise<T>;
}

async function send(address: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, { credentials: 'same-origin', ...init });
  } catch (error) {
    if (init.signal?.aborted === true) throw error;
    observer(false, 0);
    throw new UnreachableError();
  }
  observer(true, response.status);
  if (response.ok) return response;
  throw new ApiError(await problemOf(response));
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    return (await response.json()) as Problem;
  } catch {
    const { status, statusText: title } = response;
    return { status, title, detail: `the server answered ${status} ${title}`, code: 'FAILED' };
  }
}

/** Why a stream has no connection at the moment, or will have none any more. */
export type StreamState =
  | 'connecting'
  | 'open'
  /** The connection is lost; the page connects again. */
  | 'lost'
  /** The server is about to end; the page connects again. */
  | 'draining'
  /** Everything was read. */
  | 'ended'
  /** The token was revoked or has expired. */
  | 'revoked'
  /** The server refused the stream with a problem. */
  | 'refused';

/** Who reads a stream. */
export interface Follower<T> {
  /** A message with its number. Each number comes once, and in order. */
  onMessage(message: T, id: number): void;
  onState?(state: StreamState, problem?: Problem): void;
}

/** A stream that is being followed. */
export interface Following {
  /** The number of the last message. */
  readonly last: number;
  close(): void;
}

/** How long the page waits before it connects again where the browser itself does not. */
const PAUSE_FIRST_MS = 500;
const PAUSE_MAX_MS = 5_000;

/** Follows a stream until it ends. Connects again after the last message, also after a restart of the server. */
export function follow<T>(path: string, query: object, follower: Follower<T>): Following {
  const given = query as { after?: number | undefined };
  const numbered = path.endsWith('/events/stream');
  let last = numbered ? (given.after ?? 0) : 0;
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let pause = PAUSE_FIRST_MS;
  let over = false;

  const state = (now: StreamState, problem?: Problem) => follower.onState?.(now, problem);
  const end = (how: StreamState, problem?: Problem) => {
    over = true;
    clearTimeout(timer);
    source?.close();
    state(how, problem);
  };
  const connect = () => {
    state('connecting');
    const address = url(path, numbered && last > 0 ? { ...query, after: last } : query);
    const opened = new EventSource(address);
    source = opened;
    opened.onopen = () => {
      pause = PAUSE_FIRST_MS;
      observer(true, 200);
      state('open');
    };
    opened.onmessage = (event: MessageEvent<string>) => {
      const id = Number(event.lastEventId);
      // A browser that connected again sends the number of its last event; this only guards against a repetition.
      if (numbered && id <= last) return;
      last = id;
      follower.onMessage(JSON.parse(event.data) as T, id);
    };
    opened.addEventListener('end', () => end('ended'));
    opened.addEventListener('revoked', () => {
      observer(true, 401);
      end('revoked');
    });
    opened.addEventListener('draining', () => state('draining'));
    opened.addEventListener('problem', (event) => {
      end('refused', JSON.parse((event as MessageEvent<string>).data) as Problem);
    });
    opened.onerror = () => {
      if (over) return;
      state('lost');
      if (opened.readyState !== EventSource.CLOSED) return;
      // The browser gives up where the server answered with an error. A request says which one.
      opened.close();
      void why(address).then((problem) => {
        if (over) return;
        if (problem === 'ended') return end('ended');
        if (problem !== undefined && problem.status < 500 && problem.status !== 429) return end('refused', problem);
        timer = setTimeout(connect, pause);
        pause = Math.min(pause * 2, PAUSE_MAX_MS);
      });
    };
  };
  connect();
  return {
    get last() {
      return last;
    },
    close: () => {
      over = true;
      clearTimeout(timer);
      source?.close();
    },
  };
}

/** Why a stream was refused; nothing if the server does not answer, or would not refuse it now. */
async function why(address: string): Promise<Problem | 'ended' | undefined> {
  const stop = new AbortController();
  try {
    const response = await send(address, { signal: stop.signal });
    stop.abort();
    return response.status === 204 ? 'ended' : undefined;
  } catch (error) {
    return error instanceof ApiError ? error.problem : undefined;
  }
}
