// Repeated reads of what has no stream. They pause in a hidden tab (unless it is for notices), and slow down while the server does not answer.

export interface Polling {
  /** Reads at once. */
  now(): void;
  stop(): void;
}

const FAILED_MAX_MS = 10_000;

/**
 * Calls `read` at once and then `every` milliseconds after each end of it. It returns whether it succeeded. It pauses in a
 * hidden tab unless `whenHidden`.
 */
export function poll(
  every: () => number,
  read: (signal: AbortSignal) => Promise<boolean>,
  whenHidden: () => boolean = () => false,
): Polling {
  const stop = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isReading = false;
  let again = false;
  let failures = 0;

  const next = async () => {
    clearTimeout(timer);
    if (isReading) {
      again = true;
      return;
    }
    isReading = true;
    const succeeded = await read(stop.signal).catch(() => false);
    isReading = false;
    if (stop.signal.aborted) return;
    failures = succeeded ? 0 : failures + 1;
    const pause = failures === 0 ? every() : Math.min(every() * 2 ** Math.min(failures, 6), FAILED_MAX_MS);
    if (again) {
      again = false;
      void next();
    } else if (!document.hidden || whenHidden()) {
      timer = setTimeout(() => void next(), pause);
    }
  };
  const onVisible = () => {
    if (!document.hidden) void next();
  };
  document.addEventListener('visibilitychange', onVisible);
  stop.signal.addEventListener('abort', () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', onVisible);
  });
  void next();
  return { now: () => void next(), stop: () => stop.abort() };
}
