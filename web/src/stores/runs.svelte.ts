// The list of runs, live while a view shows it.

import { getRun, listRuns, type Agent, type RunPage, type RunSummary } from '../api/client';
import { poll, type Polling } from '../lib/poll';

/** How often the list is read while a run of it is open, */
const LIVE_MS = 1_500;
/** and while none is. */
const IDLE_MS = 4_000;
/** Runs on a page. */
const PAGE = 100;
/** Runs with a progress: the newest that a process executes. */
const PROGRESS_MAX = 6;
/** How often the progress of a run is read. */
const PROGRESS_MS = 3_000;

/** How far a run is. */
export interface Progress {
  readonly closed: number;
  readonly agents: number;
  /** What its root does. */
  readonly activity: string | null;
}

/** Whether a run has not ended. */
export function isOpen(run: { status: RunSummary['status'] }): boolean {
  return run.status === 'running' || run.status === 'interrupted';
}

export function progressOf(agents: readonly Agent[]): Progress {
  const closed = agents.filter((agent) => agent.final_status !== null).length;
  return { closed, agents: agents.length, activity: agents[0]?.activity ?? null };
}

export type StatusFilter = NonNullable<NonNullable<Parameters<typeof listRuns>[0]>['status']>[number];

export class RunList {
  /** The runs that were read, newest first; nothing before the first answer. */
  runs = $state.raw<readonly RunSummary[]>();
  readAtMs = $state(0);
  hasMore = $state(false);
  problem = $state<string>();
  progress = $state.raw<ReadonlyMap<string, Progress>>(new Map());

  #statuses: readonly StatusFilter[] = [];
  #pages = 1;
  #polling: Polling;
  #reading: Polling;

  constructor() {
    this.#polling = poll(
      () => (this.runs?.some(isOpen) === true ? LIVE_MS : IDLE_MS),
      (signal) => this.#read(signal),
    );
    this.#reading = poll(
      () => PROGRESS_MS,
      (signal) => this.#readProgress(signal),
    );
  }

  /** Shows only runs with one of these statuses; all, if there is none. */
  filter(statuses: readonly StatusFilter[]): void {
    if (statuses.join() === this.#statuses.join()) return;
    this.#statuses = statuses;
    this.#pages = 1;
    this.#polling.now();
  }

  more(): void {
    this.#pages += 1;
    this.#polling.now();
  }

  close(): void {
    this.#polling.stop();
    this.#reading.stop();
  }

  async #read(signal: AbortSignal): Promise<boolean> {
    try {
      const status = [...this.#statuses];
      const runs: RunSummary[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < this.#pages; page += 1) {
        const read: RunPage = await listRuns({ status, cursor, limit: PAGE }, { signal });
        runs.push(...read.runs);
        cursor = read.next ?? undefined;
        if (cursor === undefined) break;
      }
      if (status.join() !== this.#statuses.join()) return true;
      const isFirst = this.runs === undefined;
      this.runs = runs;
      this.readAtMs = Date.now();
      this.hasMore = cursor !== undefined;
      this.problem = undefined;
      if (isFirst) this.#reading.now();
      return true;
    } catch (error) {
      if (!signal.aborted) this.problem = error instanceof Error ? error.message : String(error);
      return false;
    }
  }

  async #readProgress(signal: AbortSignal): Promise<boolean> {
    const open = (this.runs ?? []).filter((run) => run.status === 'running').slice(0, PROGRESS_MAX);
    const read = await Promise.all(
      open.map(async (run) => [run.run, progressOf((await getRun(run.run, {}, { signal })).agents)] as const),
    );
    this.progress = new Map(read);
    return true;
  }
}
