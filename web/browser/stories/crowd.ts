import assert from 'node:assert/strict';

import { fan } from '../models';
import { story } from '../story';

const CHILDREN = 1_000;

story('a run with 1,000 agents is shown', async (story) => {
  const { home } = story;
  home.write('README.md', '# A project\n');
  home.script('fan.yaml', fan(CHILDREN));
  const server = await home.serve();
  const settings = { 'agent.max_agents': 'none', 'agent.max_tokens': 'none', 'agent.max_time': 'none', 'agent.max_usd': 'none' };
  const run = await server.start('fan.yaml', 'Look at every part.', settings);
  await server.until(run, 'run.completed');
  const { page } = await story.open(server, `#/runs/${run}`);
  await page.addInitScript(() => {
    new MutationObserver((_, observer) => {
      if (document.querySelector('[data-agent]') === null) return;
      observer.disconnect();
      requestAnimationFrame(() => performance.mark('tree'));
    }).observe(document, { childList: true, subtree: true });
  });
  await page.reload();
  await page.locator('[data-agent="1"]').waitFor();
  const painted = await page.evaluate(() => ({
    paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0,
    tree: performance.getEntriesByName('tree')[0]?.startTime ?? 0,
  }));
  // Never a reason to fail: only `cargo xtask bench` judges times.
  console.log(`1,000 agents: first paint after ${Math.round(painted.paint)} ms, the tree is painted after ${Math.round(painted.tree)} ms`);
  await page.getByText(`${(CHILDREN + 1).toLocaleString('en')}`).first().waitFor();
  // Few of the rows are in the document, and the last one is reached by a key.
  assert.ok((await page.locator('[data-agent]').count()) < 150);
  await page.getByRole('treegrid').focus();
  await page.keyboard.press('End');
  await page.locator(`[data-agent="${CHILDREN}"]`).waitFor();
  await page.keyboard.press('Space');
  await page.getByRole('complementary', { name: `Agent ${CHILDREN}` }).waitFor();
});
