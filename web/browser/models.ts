// Scripted models of the stories. A rule answers the first time that its conditions hold.

const priced = { context_tokens: 200_000, price: { input: 3, output: 15, cached: 0.3 } };

function task(description: string, prompt: string, more: object = {}): object {
  return { name: 'task', input: { subagent_type: 'general', description, prompt, ...more } };
}

function bash(command: string): object {
  return { name: 'bash', input: { command, description: command } };
}

/**
 * Two children work at the same time: one changes a file, the other asks whether it may push. So the run stays open until
 * the question is answered.
 */
export const ASKING = {
  facts: priced,
  rules: [
    {
      when: { definition: 'coder', turn: 1 },
      reply: { text: 'I split the work.', tool_calls: [task('write the notes', 'Write NOTES.md.'), task('publish it', 'Push the branch.')] },
    },
    {
      when: { agent: '1', turn: 1 },
      reply: { text: 'I look first.', tool_calls: [{ name: 'read', input: { path: 'README.md' } }] },
    },
    {
      when: { agent: '1', turn: 2 },
      reply: { text: '', tool_calls: [{ name: 'write', input: { path: 'NOTES.md', content: '# Notes\n\n- one\n' } }] },
    },
    { when: { agent: '1' }, reply: { text: 'NOTES.md is **written**.' } },
    { when: { agent: '2', turn: 1 }, reply: { text: 'Now I push.', tool_calls: [bash('git push origin main')] } },
    { when: { agent: '2' }, reply: { text: 'The push was answered.' } },
    { reply: { text: '# Done\n\nThe notes are written.' } },
  ],
};

/** A child of a child that never answers, beside one that ends at once: for cancelling a subtree. */
export const NEVER_ENDING = {
  facts: priced,
  rules: [
    {
      when: { definition: 'coder', turn: 1 },
      reply: { text: 'I split the work.', tool_calls: [task('the long way', 'Take the long way.', { subagent_type: 'lead' }), task('the short way', 'Take the short way.', { subagent_type: 'explore' })] },
    },
    { when: { agent: '1', turn: 1 }, reply: { text: 'I delegate.', tool_calls: [task('wait', 'Wait for ever.')] } },
    { when: { agent: '1.1' }, reply: { text: 'never' }, latency_ms: 600_000 },
    { reply: { text: 'That is all.' } },
  ],
};

/** A root with many children of two turns each. */
export function fan(children: number): object {
  const calls = Array.from({ length: children }, (_, number) => ({
    name: 'task',
    input: { subagent_type: 'explore', description: `look ${number}`, prompt: `Look at part ${number}.` },
  }));
  return {
    facts: priced,
    rules: [
      { when: { depth: 0, turn: 1 }, reply: { text: 'I split it.', tool_calls: calls } },
      { when: { depth: 1, turn: 1 }, reply: { text: 'Looking.', tool_calls: [{ name: 'read', input: { path: 'README.md' } }] } },
      { when: { depth: 1 }, reply: { text: 'Found.' } },
      { reply: { text: 'All parts were looked at.' } },
    ],
  };
}

/** A text that does something if any part of the page takes it for markup. */
export const ATTACK = [
  '<img src=x onerror="reportBreach(\'img\')">',
  '<script>reportBreach("script")</script>',
  '<svg/onload=reportBreach("svg")>',
  '<iframe srcdoc="<script>parent.reportBreach(1)</script>"></iframe>',
  '<style>*{display:none}</style>',
  '"><b onmouseover=reportBreach(2)>',
  "'-reportBreach(3)-'",
  '{{constructor.constructor("reportBreach(4)")()}}',
].join(' ');

/** The same in Markdown. */
export const MARKDOWN_ATTACK = [
  `# ${ATTACK}`,
  '[a link](javascript:reportBreach("link"))',
  '[another](data:text/html,<script>reportBreach("data")</script>)',
  '![a picture](https://attacker.invalid/pixel.png)',
  '![](javascript:reportBreach("picture"))',
  '<a href="javascript:reportBreach(5)">html</a>',
  '| a | b |\n|---|---|\n| <img src=x onerror=reportBreach(6)> | `<script>reportBreach(7)</script>` |',
  '```html\n<script>reportBreach(8)</script>\n```',
  '- [ ] <details ontoggle=reportBreach(9) open>x</details>',
  '[ref]: javascript:reportBreach(10)\n\n[ref]',
].join('\n\n');

/** The name of a file that is an attack, as far as a name can be one. */
export const ATTACK_FILE = '<img src=x onerror=reportBreach(11)>.txt';

/** Every text of a model, of a tool and of a file is an attack. */
export const ATTACKING = {
  facts: priced,
  rules: [
    {
      when: { definition: 'coder', turn: 1 },
      reply: {
        text: MARKDOWN_ATTACK,
        tool_calls: [
          task(ATTACK.slice(0, 120), MARKDOWN_ATTACK),
          { name: ATTACK.slice(0, 40), input: { [ATTACK.slice(0, 40)]: ATTACK } },
        ],
      },
    },
    {
      when: { agent: '1', turn: 1 },
      reply: {
        text: ATTACK,
        tool_calls: [
          { name: 'write', input: { path: ATTACK_FILE, content: `${MARKDOWN_ATTACK}\n` } },
          { name: 'read', input: { path: ATTACK_FILE } },
          { name: 'read', input: { path: `missing ${ATTACK.slice(0, 60)}` } },
        ],
      },
    },
    { when: { agent: '1', turn: 2 }, reply: { text: ATTACK, tool_calls: [bash(`echo '${ATTACK.replaceAll("'", '')}'`)] } },
    { when: { agent: '1', turn: 3 }, reply: { text: ATTACK, tool_calls: [bash(`git push '${ATTACK.replaceAll("'", '')}'`)] } },
    { reply: { text: MARKDOWN_ATTACK } },
  ],
};
