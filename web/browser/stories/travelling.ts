import assert from 'node:assert/strict';

import { ASKING } from '../models';
import { story } from '../story';

story('a slider shows the run as it was at any event', async (story) => {
  const { home } = story;
  home.write('README.md', '# A project\n');
  home.script('asking.yaml', ASKING);
  home.settings({ on_ask: 'deny' });
  home.commit();
  const server = await home.serve();
  const run = await server.start('asking.yaml', 'Write the notes and publish them.');
  const { page } = await story.open(server, `#/runs/${run}`);
  await page.locator('header [data-status="completed"]').waitFor();
  const journal = await server.journal(run);
  const seq = (kind: string, agent: string) =>
    journal.find((event) => event.kind === kind && event.agent_id === `${run}${agent}`)?.seq ?? assert.fail(`${kind} of ${agent}`);

  const slider = page.getByRole('slider', { name: 'Event of the journal' });
  const agents = () => page.locator('[data-agent]').count();
  assert.equal(await agents(), 3);
  // Before the children, there is one agent.
  await slider.fill('2');
  await page.getByText('as it was at event 2').waitFor();
  await page.locator('[data-agent="1"]').waitFor({ state: 'detached' });
  assert.equal(await agents(), 1);
  // When the first one has begun, it runs.
  const began = journal.find((event) => event.kind === 'agent.turn_started' && event.agent_id === `${run}.1`)?.seq ?? seq('agent.subagent_started', '.1');
  await slider.fill(String(began));
  await page.locator('[data-agent="1"] [data-state="running"]').waitFor();
  // The place is in the address, so that a reload keeps it; arrow keys move it by one event.
  await page.reload();
  await page.getByText(`as it was at event ${began}`).waitFor();
  await page.locator('[data-agent="1"] [data-state="running"]').waitFor();
  await slider.focus();
  await page.keyboard.press('ArrowRight');
  await page.getByText(`as it was at event ${began + 1}`).waitFor();
  await page.getByRole('button', { name: 'Now' }).click();
  await page.getByText('as it is now').waitFor();
  await page.locator('[data-agent="1"] [data-state="closed"]').waitFor();
});
