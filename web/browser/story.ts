// What every story has: a home, a server, and windows that are checked when they are closed.

import { join } from 'node:path';
import { after, test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

import type { BrowserContextOptions } from 'playwright-core';

import { closeBrowser, Window } from './browser';
import { Home, type Server } from './home';

/** Where pictures of failed stories are. */
const FAILED = fileURLToPath(new URL('failed', import.meta.url));
/** A story that takes longer has hung. */
const STORY_MAX_MS = 120_000;

export class Story {
  readonly home = new Home();
  readonly #windows: Window[] = [];

  constructor(readonly context: TestContext) {}

  async open(server: Server, place: string, options?: BrowserContextOptions): Promise<Window> {
    const window = await Window.open(server, place, options);
    this.#windows.push(window);
    return window;
  }

  /** Shows what the windows of a failed story show. */
  async picture(name: string): Promise<void> {
    for (const [at, { page }] of this.#windows.entries()) {
      const path = join(FAILED, `${name.replaceAll(/\W+/g, '-')}-${at + 1}.png`);
      await page.screenshot({ path }).then(
        () => console.log(`what it showed: ${path}`),
        () => undefined,
      );
    }
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
  test(name, { timeout: STORY_MAX_MS }, async (context) => {
    const told = new Story(context);
    let isTold = false;
    try {
      await tell(told);
      isTold = true;
    } finally {
      if (!isTold) await told.picture(name);
      // What a window did wrong counts; after another failure, that one is reported.
      await told.close().catch((error: unknown) => {
        if (isTold) throw error;
      });
    }
  });
}

after(closeBrowser);
