// The events of a run in a list without gaps: the newest ones at first, earlier ones on request, new ones as they come.

import { listEvents, type Event as JournalEvent } from '../api/client';
import { agentNumber } from '../lib/format';
import type { RunStore } from './run.svelte';

/** Events that are read at once. */
const PAGE = 500;

export class JournalStore {
  events = $state.raw<readonly JournalEvent[]>([]);
  isReading = $state(true);
  hasEarlier = $state(false);
  problem = $state<string>();

  readonly #store: RunStore;
  readonly #agent: string | undefined;
  readonly #stop = new AbortController();
  readonly #stopNews: () => void;
  /** The events after this number are in the list, */
  #from = 0;
  /** up to this one. */
  #until = 0;
  #again = false;

  /** `agent` shows only the events of one agent, by its number. */
  constructor(store: RunStore, agent: string | undefined) {
    this.#store = store;
    this.#agent = agent;
    this.#stopNews = store.onNews((news) => this.#receive(news.events));
    void this.#begin();
  }

  close(): void {
    this.#stop.abort();
    this.#stopNews();
  }

  /** Reads the events before the first one. */
  async earlier(): Promise<void> {
    if (this.isReading) return;
    await this.#reading(async () => {
      const from = Math.max(0, this.#from - PAGE);
      const events = (await this.#pages(from, this.#from)).filter(({ seq }) => seq <= this.#from);
      this.events = [...events, ...this.events];
      this.#from = from;
      this.hasEarlier = from > 0;
    });
  }

  async #begin(): Promise<void> {
    const known = this.#store.detail?.events ?? 0;
    this.#from = this.#agent === undefined ? Math.max(0, known - PAGE) : 0;
    this.#until = this.#from;
    this.hasEarlier = this.#from > 0;
    this.isReading = false;
    await this.#readNew();
  }

  /** Takes new events into the list if they follow its last one; else it reads what is between. */
  #receive(events: readonly JournalEvent[]): void {
    const unknown = events.filter(({ seq }) => seq > this.#until);
    const [first, last] = [unknown[0], unknown.at(-1)];
    if (first === undefined || last === undefined) return;
    if (this.isReading || first.seq !== this.#until + 1 || last.seq - first.seq + 1 !== unknown.length) {
      void this.#readNew();
      return;
    }
    this.#until = last.seq;
    const wanted = unknown.filter((event) => this.#agent === undefined || agentNumber(event.agent_id) === this.#agent);
    if (wanted.length > 0) this.events = [...this.events, ...wanted];
  }

  /** Reads what comes after the last event. News may arrive during a read: then it reads once more. */
  async #readNew(): Promise<void> {
    if (this.isReading) {
      this.#again = true;
      return;
    }
    await this.#reading(async () => {
      do {
        this.#again = false;
        const events = await this.#pages(this.#until);
        if (events.length > 0) this.events = [...this.events, ...events];
      } while (this.#again);
    });
  }

  async #reading(does: () => Promise<void>): Promise<void> {
    this.isReading = true;
    try {
      await does();
      this.problem = undefined;
    } catch (error) {
      if (!this.#stop.signal.aborted) this.problem = error instanceof Error ? error.message : String(error);
    } finally {
      this.isReading = false;
    }
    if (this.#again && !this.#stop.signal.aborted) await this.#readNew();
  }

  /** All events after a number, in their order; those up to another one, if it is given. */
  async #pages(from: number, until = Number.POSITIVE_INFINITY): Promise<JournalEvent[]> {
    const events: JournalEvent[] = [];
    const agent = this.#agent === undefined ? undefined : [this.#agent];
    let after = from;
    for (;;) {
      const page = await listEvents(this.#store.run, { after, limit: PAGE, agent }, { signal: this.#stop.signal });
      events.push(...page.events);
      after = page.after;
      if (!page.more || after >= until) break;
    }
    this.#until = Math.max(this.#until, after);
    return events;
  }
}
