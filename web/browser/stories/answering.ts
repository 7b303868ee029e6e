import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { ASKING } from '../models';
import { story, type Story } from '../story';

async function prepared({ home }: Story) {
  home.write('README.md', '# A project\n');
  home.script('asking.yaml', ASKING);
  home.commit();
  return home.serve();
}

story('a question is answered in the page while a terminal shows it, and at a terminal while the page shows it', async (story) => {
  const server = await prepared(story);
  const run = await server.start('asking.yaml', 'Write the notes and publish them.', { on_ask: 'escalate' });
  await server.until(run, 'agent.input_requested');
  const window = await story.open(server, '#/inbox');
  const { page } = window;

  const terminal = story.home.terminal('approve', run);
  await terminal.until(/approve exactly this call\? \[y\/N\]/);
  assert.match(terminal.shown, /bash:git push origin main/);
  const card = page.locator(`[data-question][data-agent="${run}.2"]`);
  await card.getByRole('group', { name: 'Operation' }).getByText('bash:git push origin main').waitFor();
  // A list that has just moved takes no answer, and a page that has just been loaded counts as one.
  await page.waitForFunction(() => performance.now() > 1_000);
  await card.getByRole('button', { name: 'Approve once' }).click();
  await card.waitFor({ state: 'detached' });
  await page.getByRole('status').getByText('Approved once').waitFor();
  await server.until(run, 'run.completed');
  // The answer of the terminal comes too late, and is about nothing else.
  terminal.types('y\r');
  assert.equal(await terminal.ends(), 1, terminal.shown);
  const answers = (await server.journal(run)).filter(({ kind }) => kind === 'agent.input_answered');
  assert.equal(answers.length, 1);

  const other = await server.start('asking.yaml', 'And once more.', { on_ask: 'escalate' });
  const second = page.locator(`[data-question][data-agent="${other}.2"]`);
  await second.waitFor();
  const denied = story.home.terminal('deny', other, '--yes', '--reason', 'not on a Friday');
  assert.equal(await denied.ends(), 0, denied.shown);
  await second.waitFor({ state: 'detached' });
  await page.getByRole('status').getByText('answered elsewhere').waitFor();
  await server.until(other, 'run.completed');
});

story('the changes of a run are read, applied and taken back', async (story) => {
  const server = await prepared(story);
  const run = await server.start('asking.yaml', 'Write the notes.', { on_ask: 'deny' });
  await server.until(run, 'run.completed');
  const window = await story.open(server, `#/runs/${run}/changes`);
  const { page } = window;
  const notes = join(story.home.project, 'NOTES.md');
  await page.getByText('NOTES.md').first().waitFor();
  const apply = page.getByRole('region', { name: 'Apply' });
  await apply.getByRole('button', { name: 'Preview' }).click();
  await apply.getByText('NOTES.md').waitFor();
  assert.ok(!existsSync(notes), 'a preview writes nothing');
  await apply.getByRole('button', { name: 'Apply 1 file' }).click();
  await apply.getByRole('button', { name: 'Undo', exact: true }).waitFor();
  assert.ok(existsSync(notes));
  await apply.getByRole('button', { name: 'Undo', exact: true }).click();
  await apply.getByRole('button', { name: 'Undo', exact: true }).waitFor({ state: 'detached' });
  assert.ok(!existsSync(notes));
});
