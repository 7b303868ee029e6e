import assert from 'node:assert/strict';

import { ASKING } from '../models';
import { story } from '../story';

story('a run is followed live, from its list to its end', async (story) => {
  const { home } = story;
  home.write('README.md', '# A project\n');
  home.script('asking.yaml', ASKING);
  home.commit();
  const server = await home.serve();
  const { page } = await story.open(server, '#/runs');
  await page.getByText('There are no runs yet.').waitFor();

  const run = await server.start('asking.yaml', 'Write the notes and publish them.');
  // The list shows it by itself, also that it waits for its user.
  const row = page.locator(`tr[data-run="${run}"]`);
  await row.waitFor();
  await row.getByText('waits for you').waitFor();
  await row.getByText('bash:git push origin main').waitFor();

  await row.getByRole('link', { name: 'Write the notes and publish them.' }).click();
  const agent = (number: string) => page.locator(`[data-agent="${number}"]`);
  await agent('1').locator('[data-state="closed"]').waitFor();
  await agent('2').getByText('git push origin main').first().waitFor();
  await page.getByRole('img', { name: /^Timeline of 3 agents/ }).waitFor();
  assert.equal(await page.locator('h1').innerText(), 'Write the notes and publish them.');

  // A second window shows the journal, and notes when each event comes.
  const journal = await story.open(server, `#/runs/${run}/journal`);
  await journal.page.locator('li[data-seq]').first().waitFor();
  await journal.page.evaluate(() => {
    const came: Record<string, number> = {};
    Object.assign(globalThis, { came });
    new MutationObserver((changes) => {
      for (const node of changes.flatMap(({ addedNodes }) => [...addedNodes])) {
        const seq = node instanceof HTMLElement ? node.dataset['seq'] : undefined;
        // A row that leaves the document and comes back has come before.
        if (seq !== undefined) came[seq] ??= Date.now();
      }
    }).observe(document.body, { childList: true, subtree: true });
  });
  const since = Date.now();

  const [question] = (await server.ask<{ questions: { approval: string }[] }>(`/runs/${run}/questions`)).questions;
  await server.ask(`/runs/${run}/answers`, { approval: question?.approval, decision: 'deny', reason: 'not on a Friday' });
  await page.locator('header [data-status="completed"]').waitFor();
  await agent('2').locator('[data-state="closed"]').waitFor();
  await agent('0').locator('[data-state="closed"]').waitFor();

  const events = await server.journal(run);
  await journal.page.locator(`ol[data-events="${events.length}"]`).waitFor();
  const came = await journal.page.evaluate(() => (globalThis as unknown as { came: Record<string, number> }).came);
  const late = events.flatMap(({ seq, at }) => (Date.parse(at) > since ? [(came[seq] ?? Number.NaN) - Date.parse(at)] : []));
  late.sort((one, other) => one - other);
  // Never a reason to fail: only `cargo xtask bench` judges times.
  console.log(`${late.length} events: on the screen ${late[Math.floor(late.length / 2)]} ms after their commit, the last one ${late.at(-1)} ms`);

  await page.getByRole('link', { name: 'Outcome' }).click();
  const report = page.getByRole('region', { name: 'Report' });
  await report.getByRole('heading', { name: 'Done' }).waitFor();
  await page.getByRole('region', { name: 'Changes' }).getByText('1 file').waitFor();
});
