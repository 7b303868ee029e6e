import assert from 'node:assert/strict';

import { ASKING } from '../models';
import { story } from '../story';

story('a run is started in the page, once, and each mistake is shown beside its field', async (story) => {
  const { home } = story;
  home.write('README.md', '# A project\n');
  home.script('asking.yaml', ASKING);
  home.commit();
  const server = await home.serve();
  const { page } = await story.open(server, '#/new');
  const start = page.getByRole('button', { name: 'Start the run' });
  assert.ok(await start.isDisabled(), 'there is nothing to do yet');
  await page.getByLabel('Request').fill('Write the notes.');
  await page.getByLabel('Model').fill('scripted/asking.yaml');

  // The problem document names the field: it is marked, explained and focused.
  const limit = page.getByLabel('Cost, in dollars');
  await limit.fill('a lot');
  await start.click();
  await page.locator('[id="problem-agent.max_usd"]').getByText('expected dollars').waitFor();
  assert.equal(await limit.getAttribute('aria-invalid'), 'true');
  await page.locator('input:focus[aria-describedby="problem-agent.max_usd"]').waitFor();
  await limit.fill('2');
  await page.getByLabel('Directory').fill('/does/not/exist');
  await start.click();
  await page.locator('#problem-dir').waitFor();
  await page.getByLabel('Directory').fill('');

  // The plan is checked while it is written, and a problem leads to its line.
  await page.getByRole('heading', { name: 'Plan' }).click();
  const plan = page.getByLabel('Plan (YAML)');
  await plan.fill('goal: notes\nsteps:\n  - titel: one\n    description: Write.\n');
  await page.getByText('unknown key `titel`').waitFor();
  await page.getByRole('button', { name: 'Line 3' }).first().click();
  const marked = await plan.evaluate((area: HTMLTextAreaElement) => area.value.slice(area.selectionStart, area.selectionEnd));
  assert.equal(marked, '  - titel: one');
  await plan.fill('goal: notes\nsteps:\n  - title: one\n    description: Write.\n  - title: two\n    description: Read.\n    depends_on: [one]\n');
  await page.getByText('can be executed').waitFor();
  await page.getByRole('heading', { name: 'Plan' }).click();

  // The answer of the first request is lost after the server has it: sending it again starts nothing twice.
  let isFirst = true;
  await page.route('**/api/v1/runs', async (route) => {
    if (route.request().method() !== 'POST' || !isFirst) return route.continue();
    isFirst = false;
    await route.fetch();
    return route.abort();
  });
  await start.click();
  await page.getByText('the server does not answer').first().waitFor();
  await start.click();
  await page.locator('header h1').getByText('Write the notes.').waitFor();
  const { runs } = await server.ask<{ runs: { run: string }[] }>('/runs');
  assert.equal(runs.length, 1);
  assert.ok(page.url().endsWith(`#/runs/${runs[0]?.run}`));
});

story('costs, definitions and settings say where their figures, files and values come from', async (story) => {
  const { home } = story;
  home.write('README.md', '# A project\n');
  home.script('asking.yaml', ASKING);
  home.write('.posse/agents/mine.md', '---\nname: mine\ndescription: My own.\n---\nWork.\n');
  home.write('.posse/settings.yaml', 'agent:\n  max_turns: 5\n');
  home.settings({ on_ask: 'deny', agent: { max_usd: 3 } });
  home.commit();
  const server = await home.serve();
  const run = await server.start('asking.yaml', 'Write the notes.');
  await server.until(run, 'run.completed');
  const window = await story.open(server, '#/costs');
  const { page } = window;

  const stats = await server.ask<{ by_depth: { depth: number; agents: number }[] }>(`/runs/${run}/stats`);
  const depths = page.getByRole('region', { name: 'By depth' }).locator('tbody tr');
  await depths.first().waitFor();
  assert.equal(await depths.count(), stats.by_depth.length);
  await page.getByRole('region', { name: 'By model' }).getByText('asking.yaml').waitFor();
  assert.equal(await page.getByRole('region', { name: 'By agent' }).locator('tbody tr').count(), 3);

  // By keyboard: `g` and a letter lead to the other views.
  await page.locator('main').focus();
  await page.keyboard.press('g');
  await page.keyboard.press('d');
  const mine = page.locator('[data-definition="mine"]');
  await mine.getByText('project').first().waitFor();
  await page.getByRole('region', { name: 'Trust' }).getByText('.posse/settings.yaml').first().waitFor();
  await page.locator('main').focus();
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  const setting = (key: string) => page.locator('tr', { has: page.getByText(key, { exact: true }) });
  await setting('on_ask').getByText('your file').waitFor();
  await setting('agent.max_usd').getByText('3', { exact: true }).waitFor();
  await setting('agent.max_turns').getByText('project', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Only those that are set' }).click();
  await setting('gc.salvage').waitFor({ state: 'detached' });
});
