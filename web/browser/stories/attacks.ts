import assert from 'node:assert/strict';

import { ATTACK, ATTACKING, MARKDOWN_ATTACK } from '../models';
import { story } from '../story';

/** Elements that the page itself never has. */
const STRANGE = [
  'main :is(script, iframe, img, style, object, embed, base, meta)',
  'main :is([onerror], [onload], [onmouseover], [ontoggle], [srcdoc], [style*="display:none"])',
  ':is(a, area)[href^="javascript:"]',
  ':is(a, area)[href^="data:"]',
].join();

story('what models, tools and files write is text in every view', async (story) => {
  const { home } = story;
  home.write('README.md', '# A project\n');
  home.script('attack.yaml', ATTACKING);
  const name = '<img src=x onerror=reportBreach(12)>';
  const hostile = JSON.stringify(ATTACK);
  home.write('.posse/agents/evil.md', `---\nname: evil\ndescription: ${hostile}\ntools: [${hostile}]\n---\n${MARKDOWN_ATTACK}\n`);
  home.write(`.posse/agents/${name}.md`, `---\nname: ${hostile}\n---\nx\n`);
  home.write('.posse/skills/evil/SKILL.md', `---\nname: evil\ndescription: ${hostile}\n---\n${MARKDOWN_ATTACK}\n`);
  home.write('.posse/settings.yaml', `${hostile}: 1\nagent:\n  max_turns: ${hostile}\n`);
  home.settings({ model_aliases: { evil: `scripted/${ATTACK.slice(0, 40)}` } });
  home.commit();
  const server = await home.serve();
  const run = await server.start('attack.yaml', ATTACK);
  await server.until(run, 'agent.input_requested');
  const window = await story.open(server, '#/runs');
  const { page } = window;
  const look = async (place: string, shown: string) => {
    await window.go(place);
    await page.locator(shown).first().waitFor();
    // Nothing of the attack has become an element.
    assert.equal(await page.locator(STRANGE).count(), 0, place);
    window.assertClean();
  };
  await look('#/runs', `tr[data-run="${run}"]`);
  assert.ok((await page.locator(`tr[data-run="${run}"]`).innerText()).includes('<script>reportBreach("script")</script>'));
  await look(`#/runs/${run}`, '[data-agent="1"]');
  await look(`#/runs/${run}?agent=1`, 'aside[aria-label="Agent 1"]');
  const journal = await server.journal(run);
  await look(`#/runs/${run}/journal`, 'li[data-seq]');
  for (const { seq } of journal) await look(`#/runs/${run}/journal?event=${seq}`, `aside[aria-label="Event ${seq}"]`);
  await look('#/costs', 'section[aria-label="By agent"] tbody tr');
  await look('#/definitions', '[data-definition="evil"]');
  await page.getByText(ATTACK).first().waitFor();
  await look('#/settings', 'main table');
  await look('#/new', 'main form');
  await look(`#/new?agent=${encodeURIComponent(ATTACK)}&skill=${encodeURIComponent(ATTACK)}&dir=${encodeURIComponent(ATTACK)}`, 'main form');
  // A search, an agent and an event of the address are texts too.
  await look(`#/runs?find=${encodeURIComponent(ATTACK)}`, 'main .empty');
  await look(`#/runs/${encodeURIComponent(ATTACK)}`, 'main');
  await look(`#/runs/${run}/journal?agent=${encodeURIComponent(ATTACK)}`, 'main');

  await look('#/inbox', '[data-question]');
  for (const agent of ['0', '1']) await look(`#/runs/${run}/agents/${agent}`, 'main h2');
  await look(`#/runs/${run}/agents/1/contract`, 'main h2');

  const [question] = (await server.ask<{ questions: { approval: string }[] }>(`/runs/${run}/questions`)).questions;
  await server.ask(`/runs/${run}/answers`, { approval: question?.approval, decision: 'deny', reason: MARKDOWN_ATTACK.slice(0, 500) });
  await server.until(run, 'run.completed');
  await look(`#/runs/${run}/outcome`, 'section[aria-label="Report"]');

  await look(`#/runs/${run}/changes`, 'section[aria-label="Apply"]');
  await look(`#/runs/${run}/outcome`, 'section[aria-label="Report"]');
  // A link of a model does nothing until the user has seen its address, and then only if it is one of the web.
  const report = page.getByRole('region', { name: 'Report' });
  for (const name of ['a link', 'another', '[picture]']) {
    await report.getByRole('button', { name, exact: true }).first().click();
    const dialog = page.getByRole('dialog', { name: 'A link of a text' });
    await dialog.getByText('The page does not open addresses of this kind').waitFor();
    assert.equal(await dialog.getByRole('link').count(), 0);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  }
  window.assertClean();
});
