// The pictures of the page in the documents: `cargo xtask web screenshots`. The page itself is shown, so they cannot drift.

import { join } from 'node:path';

import { closeBrowser, Window } from './browser';
import { Home } from './home';

const VIEWPORT = { viewport: { width: 1280, height: 620 }, colorScheme: 'light' } as const;

const dir = process.argv[2];
if (dir === undefined) throw new Error('usage: screenshots.js DIRECTORY');

const home = new Home();
try {
  home.write('README.md', '# A project\n');
  home.commit();
  const server = await home.serve();
  const demo = home.terminal('demo');
  await demo.ends();
  const [run] = (await server.ask<{ runs: { run: string }[] }>('/runs')).runs;
  const window = await Window.open(server, `#/runs/${run?.run ?? ''}`, VIEWPORT);
  await window.page.locator('header [data-status="completed"]').waitFor();
  await window.page.getByRole('img', { name: /^Timeline of/ }).waitFor();
  await window.painted();
  await window.page.screenshot({ path: join(dir, 'page-run.png') });
  await window.close();
} finally {
  await closeBrowser();
  await home.close();
}
