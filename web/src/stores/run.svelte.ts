// One run, live. The server's read model is the truth; the events of the journal only say when to read it again.

import {
  followDeltas,
  followEvents,
  getRun,
  getTimeline,
  listEvents,
  type Delta,
  type Event as JournalEvent,
  type Problem,
  type RunDetail,
  type RunTimeline,
} from '../api/client';
import { ApiError, type Following, type StreamState } from '../api/transport';
import { coalesce, type Coalesced } from '../lib/coalesce';
import { poll, type Polling } from '../lib/poll';
import { questions } from './questions.svelte';
import { isOpen } from './runs.svelte';

/** What no event reports: a process that ended, or one that took the run over. */
const STATUS_MS = 5_000;
/** A hidden tab gives its connections back after this time: a browser has few of them for all tabs of a server. */
const HIDDEN_MS = 20_000;
/** States of the past that are kept: moving a slider to and fro reads none twice. */
const PASTS_MAX = 64;
/** Events that arrive within this time are reported together. */
const GATHER_MS = 16;
/** Kinds of events after which a question may be new or answered. */
const ABOUT_QUESTIONS = new Set(['agent.input_requested', 'agent.input_answered', 'agent.subagent_closed']);

/** New events, for views that read parts of the run themselves. */
export interface News {
  readonly events: readonly JournalEvent[];
  /** Whether an event is about this agent. */
  has(agent: string): boolean;
}

type Reader = (news: News) => void;

export class RunStore {
  readonly run: string;
  /** The run as it is now; nothing before the first answer. */
  detail = $state.raw<RunDetail>();
  /** Its timeline, while a view wants it. */
  timeline = $state.raw<RunTimeline>();
  /** When `detail` was read. */
  readAtMs = $state(0);
  /** The newest event. */
  lastEvent = $state.raw<JournalEvent>();
  stream = $state<StreamState>('connecting');
  problem = $state.raw<Problem>();

  /** The event to which the user went back; nothing while the run is shown as it is now. */
  at = $state<number>();
  /** The run as it was at that event, and the event. */
  past = $state.raw<{ detail: RunDetail; event: JournalEvent | undefined }>();

  #pasts = new Map<number, { detail: RunDetail; event: JournalEvent | undefined }>();
  #isTravelling = false;
  #events: Following | undefined;
  #last = 0;
  #refresh: Coalesced;
  #refreshTimeline: Coalesced;
  #status: Polling;
  #hidden: ReturnType<typeof setTimeout> | undefined;
  #readers = new Set<Reader>();
  #pending: JournalEvent[] = [];
  #timelineReaders = 0;
  #stop = new AbortController();

  constructor(run: string) {
    this.run = run;
    this.#refresh = coalesce(() => this.#read());
    this.#refreshTimeline = coalesce(() => this.#readTimeline());
    this.#status = poll(
      () => STATUS_MS,
      async () => {
        if (this.detail === undefined || isOpen(this.detail)) this.#ask();
        return true;
      },
    );
    document.addEventListener('visibilitychange', this.#onVisibility);
  }

  get isOpen(): boolean {
    return this.detail !== undefined && isOpen(this.detail);
  }

  /** The run as the user wants to see it: now, or as it was. */
  get shown(): RunDetail | undefined {
    return this.at === undefined ? this.detail : (this.past?.detail ?? this.detail);
  }

  /** Goes back to an event, or to now. */
  travel(at: number | undefined): void {
    if (at === this.at) return;
    this.at = at;
    if (at === undefined) this.past = undefined;
    else void this.#travel();
  }

  async #travel(): Promise<void> {
    if (this.#isTravelling) return;
    this.#isTravelling = true;
    const { signal } = this.#stop;
    try {
      // A slider moves faster than answers come: what counts is where it is when one has come.
      while (this.at !== undefined && !signal.aborted) {
        const at = this.at;
        const known = this.#pasts.get(at) ?? (await this.#readPast(at, signal));
        this.past = known;
        if (this.at === at) break;
      }
    } catch (error) {
      if (error instanceof ApiError) this.problem = error.problem;
    } finally {
      this.#isTravelling = false;
    }
  }

  async #readPast(at: number, signal: AbortSignal): Promise<{ detail: RunDetail; event: JournalEvent | undefined }> {
    const [detail, page] = await Promise.all([
      getRun(this.run, { at }, { signal }),
      listEvents(this.run, { after: at - 1, limit: 1 }, { signal }),
    ]);
    const past = { detail, event: page.events[0] };
    this.#pasts.set(at, past);
    for (const oldest of this.#pasts.keys()) {
      if (this.#pasts.size <= PASTS_MAX) break;
      this.#pasts.delete(oldest);
    }
    return past;
  }

  /** Whether a process executes it. */
  readonly isRunning = $derived(this.detail?.status === 'running');

  /** Calls back with new events, once for all that arrive together. Returns how to stop it. */
  onNews(reader: Reader): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  /** Keeps `timeline` up to date until the returned function is called. */
  wantTimeline(): () => void {
    this.#timelineReaders += 1;
    this.#ask();
    return () => {
      this.#timelineReaders -= 1;
    };
  }

  /** Reads the run soon: a command may have changed it. */
  readAgain(): void {
    this.#ask();
  }

  /** Follows what models write at the moment. Nothing may rely on it: some of it may be missing. */
  followDeltas(agent: string | undefined, onDelta: (delta: Delta) => void): () => void {
    const following = followDeltas(this.run, { agent }, { onMessage: onDelta });
    return () => following.close();
  }

  close(): void {
    this.#stop.abort();
    this.#refresh.stop();
    this.#refreshTimeline.stop();
    this.#status.stop();
    this.#disconnect();
    clearTimeout(this.#hidden);
    document.removeEventListener('visibilitychange', this.#onVisibility);
  }

  readonly #onVisibility = () => {
    clearTimeout(this.#hidden);
    if (document.hidden) {
      this.#hidden = setTimeout(() => this.#disconnect(), HIDDEN_MS);
    } else {
      this.#ask();
      this.#connect();
    }
  };

  async #read(): Promise<void> {
    const { signal } = this.#stop;
    try {
      const detail = await getRun(this.run, {}, { signal });
      // A slow answer never replaces a newer one.
      if (this.detail === undefined || detail.events >= this.detail.events) {
        this.detail = detail;
        this.readAtMs = Date.now();
      }
      this.problem = undefined;
      this.#connect();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError) this.problem = error.problem;
      throw error;
    }
  }

  async #readTimeline(): Promise<void> {
    if (this.#timelineReaders === 0) return;
    const read = await getTimeline(this.run, { signal: this.#stop.signal }).catch(() => undefined);
    if (read !== undefined && read.events >= (this.timeline?.events ?? 0)) this.timeline = read;
  }

  /** Reads what is shown of the run soon. */
  #ask(): void {
    this.#refresh.ask();
    this.#refreshTimeline.ask();
  }

  #connect(): void {
    if (this.#events !== undefined || this.detail === undefined || document.hidden) return;
    if (!isOpen(this.detail)) {
      this.stream = 'ended';
      return;
    }
    this.#last = Math.max(this.#last, this.detail.events);
    this.#events = followEvents(
      this.run,
      { after: this.#last },
      {
        onMessage: (event) => this.#receive(event),
        onState: (state, problem) => {
          this.stream = state;
          if (problem !== undefined) this.problem = problem;
          // After a lost connection, and at the end, the run may be in another state than its events say.
          if (state === 'open' || state === 'ended') this.#ask();
        },
      },
    );
  }

  #disconnect(): void {
    this.#last = Math.max(this.#last, this.#events?.last ?? 0);
    this.#events?.close();
    this.#events = undefined;
  }

  #receive(event: JournalEvent): void {
    this.lastEvent = event;
    if (ABOUT_QUESTIONS.has(event.kind)) questions.readAgain();
    this.#pending.push(event);
    if (this.#pending.length === 1) setTimeout(() => this.#report(), GATHER_MS);
    this.#ask();
  }

  #report(): void {
    const events = this.#pending;
    this.#pending = [];
    const agents = new Set(events.map((event) => event.agent_id));
    const news: News = { events, has: (agent) => agents.has(agent) };
    for (const reader of this.#readers) reader(news);
  }
}
