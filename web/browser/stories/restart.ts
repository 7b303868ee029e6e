import assert from 'node:assert/strict';

import { ASKING } from '../models';
import { story } from '../story';

story('no event is lost or shown twice when the page is loaded again and the server starts again and again', async (story) => {
  const { home } = story;
  home.write('README.md', '# A project\n');
  home.script('asking.yaml', ASKING);
  home.commit();
  const first = await home.serve();
  const run = await first.start('asking.yaml', 'Write the notes and publish them.');
  const place = `#/runs/${run}/journal`;
  // One window stays open through everything; the other one is loaded again.
  const open = await story.open(first, place);
  const again = await story.open(first, place);
  await first.until(run, 'agent.input_requested');
  await open.page.locator('li[data-seq]', { hasText: 'agent.input_requested' }).waitFor();
  await again.page.reload();
  await again.page.locator('li[data-seq]', { hasText: 'agent.input_requested' }).waitFor();

  await first.stop();
  await open.page.getByText('The server does not answer.').waitFor();
  const second = await home.serve('--resume', '--listen', first.address);
  assert.equal(second.origin, first.origin);
  await again.page.reload();
  await again.page.locator('li[data-seq]', { hasText: 'agent.input_requested' }).first().waitFor();

  // The next one does not end, it is killed.
  await second.kill();
  await open.page.getByText('The server does not answer.').waitFor();
  const third = await home.serve('--resume', '--listen', first.address);
  const [question] = (await third.ask<{ questions: { approval: string }[] }>(`/runs/${run}/questions`)).questions;
  await third.ask(`/runs/${run}/answers`, { approval: question?.approval, decision: 'deny' });

  for (const { page } of [open, again]) await page.locator('header [data-status="completed"]').waitFor();
  const journal = (await third.journal(run)).map(({ seq }) => seq);
  for (const window of [open, again]) {
    await window.page.locator(`ol[data-events="${journal.length}"]`).waitFor();
    assert.deepEqual(await window.shownEvents(), journal);
  }
});
