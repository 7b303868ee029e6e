// The browser, and windows of it that watch for everything that the page must never do.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';

import type { Server } from './home';

/** Debian's Chromium, which `cargo xtask web test` finds or installs. */
const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium';

let browser: Browser | undefined;

export async function closeBrowser(): Promise<void> {
  await browser?.close();
  browser = undefined;
}

async function theBrowser(): Promise<Browser> {
  // The test may run as root, and in a container, where the browser's own sandbox does not work. It loads one page only.
  browser ??= await chromium.launch({ executablePath: CHROMIUM, chromiumSandbox: false, args: ['--disable-gpu'] });
  return browser;
}

/** A desktop, and a phone. */
export const DESK = { viewport: { width: 1280, height: 800 } };
export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

/** A window with the page of a server. */
export class Window {
  readonly #breaches: string[] = [];

  private constructor(
    readonly page: Page,
    readonly server: Server,
  ) {}

  /** Opens the printed URL, which gives the browser its cookie, and then the place. */
  static async open(server: Server, place: string, options: BrowserContextOptions = DESK): Promise<Window> {
    const context = await (await theBrowser()).newContext({ reducedMotion: 'reduce', ...options });
    context.setDefaultTimeout(30_000);
    const page = await context.newPage();
    const window = new Window(page, server);
    await window.#watch();
    await page.goto(server.url);
    await page.locator('nav[aria-label="Views"]').waitFor();
    await window.go(place);
    return window;
  }

  async #watch(): Promise<void> {
    const breach = (what: string) => this.#breaches.push(what);
    // Each of these is an attack that had an effect, or a defect of the page.
    this.page.on('pageerror', (error) => breach(`an error of a script: ${error.stack ?? error.message}`));
    this.page.on('dialog', (dialog) => {
      breach(`a dialog of a script: ${dialog.message()}`);
      void dialog.dismiss();
    });
    this.page.context().on('page', (other) => breach(`another window: ${other.url()}`));
    this.page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith('data:') && new URL(url).origin !== this.server.origin) breach(`a request to ${url}`);
    });
    this.page.on('console', (message) => {
      // The browser reports lost connections too, which stories cause on purpose.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
        breach(`an error in the console: ${message.text()}`);
      }
    });
    await this.page.exposeBinding('reportBreach', (_source, what: string) => void breach(what));
    await this.page.addInitScript(() => {
      const report = (globalThis as unknown as { reportBreach(what: string): void }).reportBreach;
      addEventListener('securitypolicyviolation', (event) => {
        report(`the policy forbade ${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
      });
    });
  }

  /** Waits until what the page has drawn is on the screen. */
  async painted(): Promise<void> {
    await this.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }

  async go(place: string): Promise<void> {
    await this.page.evaluate((hash) => (location.hash = hash), place);
  }

  /** Fails if the page did what it must never do. */
  assertClean(): void {
    assert.deepEqual(this.#breaches, []);
  }

  async close(): Promise<void> {
    await this.page.context().close();
    this.assertClean();
  }

  /** Fails if the page scrolls to the side. */
  async assertNoSideways(where: string): Promise<void> {
    const [content, room] = await this.page.evaluate(() => {
      const root = document.documentElement;
      return [root.scrollWidth, root.clientWidth] as const;
    });
    assert.ok(content <= room, `${where}: ${content} pixels in a window of ${room}`);
  }

  /** Fails if axe finds a violation. */
  async assertAccessible(where: string): Promise<void> {
    const isLoaded = await this.page.evaluate(() => 'axe' in globalThis);
    if (!isLoaded) await this.page.evaluate(axeSource());
    const found = await this.page.evaluate(async () => {
      const { axe } = globalThis as unknown as { axe: { run(options: object): Promise<AxeResults> } };
      const results = await axe.run({ resultTypes: ['violations'] });
      return results.violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0]?.html ?? ''} ${nodes[0]?.failureSummary ?? ''}`);
    });
    assert.deepEqual(found, [], where);
  }

  /** The numbers of all events that the journal of a run shows, from its beginning to its end, as a user scrolls through it. */
  async shownEvents(): Promise<number[]> {
    return this.page.evaluate(async () => {
      const list = document.querySelector<HTMLElement>('ol[data-events]');
      const scroller = list?.parentElement;
      if (list == null || scroller == null) throw new Error('no journal is shown');
      const painted = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
      const seen: number[] = [];
      for (let top = 0; ; top += scroller.clientHeight / 2) {
        scroller.scrollTop = top;
        scroller.dispatchEvent(new Event('scroll'));
        await painted();
        const shown = [...list.querySelectorAll<HTMLElement>('li[data-seq]')].map((row) => Number(row.dataset['seq']));
        if (new Set(shown).size !== shown.length) throw new Error(`an event is shown twice: ${shown.join()}`);
        if (shown.some((seq, at) => at > 0 && seq <= (shown[at - 1] ?? 0))) throw new Error(`out of order: ${shown.join()}`);
        for (const seq of shown) if (seen.length === 0 || seq > (seen.at(-1) ?? 0)) seen.push(seq);
        if (top + scroller.clientHeight >= scroller.scrollHeight) return seen;
      }
    });
  }
}

interface AxeResults {
  readonly violations: readonly { id: string; help: string; nodes: readonly { html: string; failureSummary?: string }[] }[];
}

let axe: string | undefined;

function axeSource(): string {
  axe ??= readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  return axe;
}
