// What the model of one agent writes at the moment. It comes from deltas, so it may have gaps.

import type { RunStore } from './run.svelte';

/** How much of a text is kept: its end. */
const TEXT_MAX = 60_000;
/** How often new text is shown. */
const SHOWN_MS = 80;

export interface Written {
  readonly text: string;
  /** Thinking, and whatever else is no text of the reply. */
  readonly thinking: string;
  /** The tools that the reply calls so far. */
  readonly tools: readonly string[];
  /** Why a call of the model failed that is repeated. */
  readonly error: string;
}

const NOTHING: Written = { text: '', thinking: '', tools: [], error: '' };

export class WritingStream {
  /** Nothing, if the model writes nothing. */
  shown = $state.raw<Written>();
  /** Whether the reply may have begun before the page began to read it. */
  isPart = $state(true);

  #now: Written = NOTHING;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Follows what an agent writes. Returns how to stop. */
  follow(store: RunStore, agent: string): () => void {
    this.isPart = true;
    const stop = store.followDeltas(agent, ({ part, content }) => {
      const now = this.#now;
      if (part === 'text') this.#now = { ...now, text: (now.text + content).slice(-TEXT_MAX), error: '' };
      else if (part === 'tool') this.#now = { ...now, tools: [...now.tools, content] };
      else if (part === 'error') this.#now = { ...NOTHING, error: content };
      else this.#now = { ...now, thinking: (now.thinking + content).slice(-TEXT_MAX) };
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined;
        this.shown = this.#now === NOTHING ? undefined : this.#now;
      }, SHOWN_MS);
    });
    return () => {
      stop();
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  }

  /** What was written is in the conversation now. */
  clear(): void {
    this.#now = NOTHING;
    this.shown = undefined;
    this.isPart = false;
  }
}
