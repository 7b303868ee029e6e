// What every story has: a home, a server, and windows that are checked when they are closed.

import { after, test } from 'node:test';

import type { BrowserContextOptions } from 'playwright-core';

import { closeBrowser, Window } from './browser';
import { Home, type Server } from './home';

/** A story that takes longer has hung. */
const STORY_MAX_MS = 120_000;

export class Story {
  readonly home = new Home();
  readonly #windows: Window[] = [];

  async open(server: Server, place: string, options?: BrowserContextOptions): Promise<Window> {
    const window = await Window.open(server, place, options);
    this.#windows.push(window);
    return window;
  }

  async close(): Promise<void> {
    try {
      for (const window of this.#windows) await window.close();
    } finally {
      await this.home.close();
    }
  }
}

/** Declares a story. Its name is a sentence about what a user can rely on. */
export function story(name: string, tell: (story: Story) => Promise<void>): void {
  test(name, { timeout: STORY_MAX_MS }, async () => {
    const told = new Story();
    let isTold = false;
    try {
      await tell(told);
      isTold = true;
    } finally {
      // What a window did wrong counts; after another failure, that one is reported.
      await told.close().catch((error: unknown) => {
        if (isTold) throw error;
      });
    }
  });
}

after(closeBrowser);
