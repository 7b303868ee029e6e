// The questions of all runs that wait for an answer: for the inbox, its badge, and the runs that wait.

import { listQuestions, type Question } from '../api/client';
import { poll } from '../lib/poll';

const EVERY_MS = 2_000;

let all = $state.raw<readonly Question[]>([]);
let isKnown = $state(false);

const polling = poll(
  () => EVERY_MS,
  async (signal) => {
    all = (await listQuestions({ signal })).questions;
    isKnown = true;
    return true;
  },
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
};
