// The questions of all runs that wait for an answer: for the inbox, its badge, and the runs that wait.

import { listQuestions, type Question } from '../api/client';
import { poll } from '../lib/poll';
import { notices } from './notices.svelte';

const EVERY_MS = 2_000;
/** How often they are read in a hidden tab, if the user wants notices. */
const HIDDEN_MS = 10_000;

let all = $state.raw<readonly Question[]>([]);
let isKnown = $state(false);
/** Questions that were answered here: an answer of the server that is older than that may still have them. */
const answered = new Set<string>();

/** What tells a question apart. */
export function keyOf(question: Question): string {
  return `${question.agent} ${question.call_id} ${question.approval}`;
}

const polling = poll(
  () => (document.hidden ? HIDDEN_MS : EVERY_MS),
  async (signal) => {
    const list = await listQuestions({ signal });
    const read = answered.size === 0 ? list.questions : list.questions.filter((question) => !answered.has(keyOf(question)));
    const known = new Set(all.map(keyOf));
    if (isKnown) for (const question of read) if (!known.has(keyOf(question))) notices.show(question);
    all = read;
    isKnown = true;
    return true;
  },
  () => notices.state === 'on',
);

export const questions = {
  get all(): readonly Question[] {
    return all;
  },
  get isKnown(): boolean {
    return isKnown;
  },
  /** Reads them at once: something happened that may have asked or answered one. */
  readAgain(): void {
    polling.now();
  },
  /** Removes one that was answered here, before the next answer of the server. */
  forget(key: string): void {
    answered.add(key);
    all = all.filter((question) => keyOf(question) !== key);
  },
};
