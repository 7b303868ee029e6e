import type { BrowserContextOptions } from 'playwright-core';

import { DESK, PHONE } from '../browser';
import { ASKING } from '../models';
import { story } from '../story';

/** Places of the page, each with what is there once it is shown; `RUN` is a run that waits for an answer. */
export const PLACES: readonly (readonly [place: string, shown: string])[] = [
  ['#/runs', 'tr[data-run]'],
  ['#/runs/RUN', '[data-agent="2"]'],
  ['#/runs/RUN?agent=2', 'aside[aria-label="Agent 2"]'],
  ['#/runs/RUN?at=5', '[data-at="5"]'],
  ['#/runs/RUN/journal', 'li[data-seq]'],
  ['#/runs/RUN/journal?event=3', 'aside[aria-label="Event 3"]'],
  ['#/runs/ENDED', '[data-agent="2"]'],
  ['#/runs/ENDED/outcome', 'section[aria-label="Report"]'],
  ['#/runs/PLANNED/plan', '[data-step="2"]'],
  ['#/new', 'main form'],
  ['#/costs?run=ENDED', 'section[aria-label="By agent"] tbody tr'],
  ['#/definitions', '[data-definition="general"]'],
  ['#/settings', 'section[aria-label="agent"] tbody tr'],
  ['#/nowhere', 'main .empty'],
];

/** Those of the inbox, an agent and the changes. */
const INBOX_PLACES: readonly (readonly [place: string, shown: string])[] = [
  ['#/inbox', '[data-question]'],
  ['#/runs/RUN/agents/2', 'main h2'],
  ['#/runs/ENDED/agents/1', 'main h2'],
  ['#/runs/ENDED/changes', 'section[aria-label="Apply"]'],
];

const SCHEMES: readonly (readonly [name: string, options: BrowserContextOptions])[] = [
  ['light', { ...DESK, colorScheme: 'light' }],
  ['dark', { ...DESK, colorScheme: 'dark' }],
  ['phone', { ...PHONE, colorScheme: 'light' }],
  ['phone, dark', { ...PHONE, colorScheme: 'dark' }],
];

story('every view works in the dark, on a phone, and for everyone', async (story) => {
  const { home } = story;
  home.write('README.md', '# A project\n');
  home.script('asking.yaml', ASKING);
  home.commit();
  const server = await home.serve();
  const ended = await server.start('asking.yaml', 'Write the notes.', { on_ask: 'deny' });
  await server.until(ended, 'run.completed');
  const plan = { goal: 'notes', steps: [{ title: 'one', description: 'Write.' }, { title: 'two', description: 'Read.', depends_on: ['one'] }] };
  const planned = await server.start('asking.yaml', 'Execute the plan.', { on_ask: 'deny' }, { plan });
  const run = await server.start('asking.yaml', 'Write the notes and publish them.');
  await server.until(run, 'agent.input_requested');

  for (const [scheme, options] of SCHEMES) {
    const window = await story.open(server, '#/runs', options);
    for (const [place, shown] of [...PLACES, ...INBOX_PLACES]) {
      const where = `${place}, ${scheme}`;
      await window.go(place.replace('RUN', run).replace('ENDED', ended).replace('PLANNED', planned));
      await window.page.locator(shown).first().waitFor().catch((error: unknown) => {
        throw new Error(`${where}: ${String(error)}`);
      });
      await window.assertNoSideways(where);
      await window.assertAccessible(where);
    }
  }
});
