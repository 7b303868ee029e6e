// The conversation of an agent, part by part: the first parts at once, further ones on request, new entries as they come.

import { getConversation, type ConversationEntry } from '../api/client';
import { UnreachableError } from '../api/transport';
import type { RunStore } from './run.svelte';

/** How long the page waits before it reads again from a server that did not answer. */
const AGAIN_MS = 2_000;
/** Events of the agent that are read at once. */
const PART = 200;

export class ConversationStore {
  entries = $state.raw<readonly ConversationEntry[]>([]);
  isReading = $state(true);
  /** Whether there are entries after the last one that was read. */
  hasMore = $state(false);
  problem = $state<string>();
  /** Rises with every part that was read: text that was written before is in the entries now. */
  parts = $state(0);

  readonly #run: string;
  readonly #agent: string;
  readonly #stop = new AbortController();
  readonly #stopNews: () => void;
  #after = 0;
  #again = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `agent` is the number of the agent, `id` its id. */
  constructor(store: RunStore, agent: string, id: string) {
    this.#run = store.run;
    this.#agent = agent;
    this.#stopNews = store.onNews((news) => {
      // Whether the whole conversation was read or not, what is new comes after what was read.
      if (news.has(id) && !this.hasMore) void this.read();
    });
    this.isReading = false;
    void this.read();
  }

  close(): void {
    this.#stop.abort();
    clearTimeout(this.#timer);
    this.#stopNews();
  }

  /** Reads the next part. */
  async read(): Promise<void> {
    if (this.isReading) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    this.isReading = true;
    this.#again = false;
    try {
      const { signal } = this.#stop;
      const part = await getConversation(this.#run, this.#agent, { after: this.#after, limit: PART }, { signal });
      this.#after = part.after;
      if (part.entries.length > 0) this.entries = [...this.entries, ...part.entries];
      this.hasMore = part.more;
      this.parts += 1;
      this.problem = undefined;
    } catch (error) {
      if (!this.#stop.signal.aborted) this.problem = error instanceof Error ? error.message : String(error);
      this.#again = false;
      if (error instanceof UnreachableError) this.#timer = setTimeout(() => void this.read(), AGAIN_MS);
    } finally {
      this.isReading = false;
    }
    if (this.#again && !this.hasMore && !this.#stop.signal.aborted) await this.read();
  }

  /** Reads what is new, if the run has events that were not looked at: a stream may have missed some. */
  upTo(events: number): void {
    if (events > this.#after && !this.hasMore && !this.isReading) void this.read();
  }

  /** Reads to the end. */
  async readAll(): Promise<void> {
    do await this.read();
    while (this.hasMore && this.problem === undefined && !this.#stop.signal.aborted);
  }
}
