// Many reasons to read again, few reads: the first reason reads at once, those during a read or soon after it share one.

export interface Coalesced {
  ask(): void;
  stop(): void;
}

/** The shortest time between two reads, */
const PAUSE_MIN_MS = 200;
/** and the longest. */
const PAUSE_MAX_MS = 5_000;
/** A read that takes long is repeated less often: at most this part of the time is spent on reads. */
const SHARE = 1 / 5;

export function coalesce(read: () => Promise<void>): Coalesced {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isBusy = false;
  let isAsked = false;
  let isStopped = false;

  const run = async () => {
    isBusy = true;
    isAsked = false;
    const began = performance.now();
    await read().catch(() => undefined);
    const took = performance.now() - began;
    const pause = Math.min(PAUSE_MAX_MS, Math.max(PAUSE_MIN_MS, took / SHARE - took));
    timer = setTimeout(() => {
      isBusy = false;
      if (isAsked && !isStopped) void run();
    }, pause);
  };
  return {
    ask: () => {
      isAsked = true;
      if (!isBusy && !isStopped) void run();
    },
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
