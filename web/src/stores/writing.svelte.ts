// What the models of a run write at the moment, as the end of their texts. It comes from deltas, so it may have gaps.

import type { RunStore } from './run.svelte';

/** How much of a text is kept: its end, in one line. */
const TAIL_MAX = 160;
/** How often new text is shown. */
const SHOWN_MS = 120;

export class Writing {
  #texts = new Map<string, string>();
  #shown = $state.raw<ReadonlyMap<string, string>>(new Map());
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #store: RunStore;

  constructor(store: RunStore) {
    this.#store = store;
  }

  /** The end of the text of an agent; nothing if its model writes none. */
  of(agent: string): string | undefined {
    return this.#shown.get(agent);
  }

  /** Follows the deltas while the run is executed. Returns how to stop. */
  follow(): () => void {
    if (!this.#store.isRunning) return () => undefined;
    const stopDeltas = this.#store.followDeltas(undefined, (delta) => {
      if (delta.part !== 'text') return;
      const text = (this.#texts.get(delta.agent_id) ?? '') + delta.content;
      this.#texts.set(delta.agent_id, text.slice(-TAIL_MAX));
      this.#soon();
    });
    // An event of the agent says more than what it wrote before.
    const stopNews = this.#store.onNews((news) => {
      for (const event of news.events) this.#texts.delete(event.agent_id);
      this.#soon();
    });
    return () => {
      stopDeltas();
      stopNews();
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  }

  #soon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#shown = new Map([...this.#texts].map(([agent, text]) => [agent, text.replace(/\s+/g, ' ').trim()]));
    }, SHOWN_MS);
  }
}
