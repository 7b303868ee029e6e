import assert from 'node:assert/strict';

import { NEVER_ENDING } from '../models';
import { story } from '../story';

story('a subtree is cancelled, and the rest of the run goes on', async (story) => {
  const { home } = story;
  home.write('README.md', '# A project\n');
  home.lead();
  home.script('never.yaml', NEVER_ENDING);
  home.commit();
  const server = await home.serve();
  const run = await server.start('never.yaml', 'Take both ways.');
  const { page } = await story.open(server, `#/runs/${run}`);
  const agent = (number: string) => page.locator(`[data-agent="${number}"]`);
  await agent('1.1').waitFor();
  await agent('2').locator('[data-state="closed"]').waitFor();

  // By keyboard alone: down to the first child, its panel, the button, the reason.
  await page.getByRole('treegrid').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Space');
  const panel = page.getByRole('complementary', { name: 'Agent 1' });
  await panel.getByRole('button', { name: 'Cancel …' }).focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Cancel agent 1' });
  await dialog.getByLabel('Reason (optional)').fill('it takes too long');
  await dialog.getByRole('button', { name: 'Cancel agent 1' }).click();
  await dialog.waitFor({ state: 'detached' });

  await agent('1.1').getByText('cancelled').first().waitFor();
  await agent('1').getByText('cancelled').first().waitFor();
  await page.locator('header [data-status="completed"]').waitFor();
  const detail = await server.ask<{ agents: { id: string; close_reason: string }[] }>(`/runs/${run}`);
  const ends = detail.agents.map(({ id, close_reason }) => [id.slice(run.length), close_reason]);
  assert.deepEqual(ends.sort(), [['', 'integrated'], ['.1', 'cancelled'], ['.1.1', 'cancelled'], ['.2', 'integrated']]);
});
