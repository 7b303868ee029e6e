// One answer of the server that a view shows until it asks for another one.

import type { CallOptions } from '../api/transport';
import { problemOf } from '../lib/problems';
import type { Problem } from '../api/client';

export class Reading<T> {
  /** The newest answer. It stays while the next one is read. */
  value = $state.raw<T>();
  problem = $state.raw<Problem | string>();

  /** Reads; returns how to stop it, as an effect needs it. */
  read(ask: (options: CallOptions) => Promise<T>): () => void {
    const stop = new AbortController();
    ask({ signal: stop.signal }).then(
      (value) => {
        if (stop.signal.aborted) return;
        this.value = value;
        this.problem = undefined;
      },
      (error: unknown) => {
        if (!stop.signal.aborted) this.problem = problemOf(error);
      },
    );
    return () => stop.abort();
  }
}
