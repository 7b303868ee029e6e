// A new run as its form has it, and the request that it becomes.

import type { StartRun } from '../api/client';

/** A setting of a run that the form offers. */
export interface Limit {
  readonly key: keyof NonNullable<StartRun['settings']>;
  readonly label: string;
  readonly example: string;
}

export const LIMITS: readonly Limit[] = [
  { key: 'agent.max_usd', label: 'Cost, in dollars', example: '5' },
  { key: 'agent.max_tokens', label: 'Tokens', example: '2000000' },
  { key: 'agent.max_time', label: 'Time', example: '30m' },
  { key: 'agent.max_agents', label: 'Agents', example: '20' },
  { key: 'agent.max_turns', label: 'Turns of the root', example: '40' },
  { key: 'agent.max_depth', label: 'Depth of sub-agents', example: '1' },
  { key: 'agent.parallel', label: 'Calls at once', example: '8' },
];

export interface Draft {
  request: string;
  dir: string;
  agent: string;
  skill: string;
  model: string;
  onAsk: string;
  limits: Record<string, string>;
  /** One operation on each line. */
  allow: string;
  plan: string;
  /** Whether the plan is sent. */
  hasPlan: boolean;
}

export function emptyDraft(dir: string): Draft {
  const limits = Object.fromEntries(LIMITS.map(({ key }) => [key, '']));
  return { request: '', dir, agent: '', skill: '', model: '', onAsk: '', limits, allow: '', plan: '', hasPlan: false };
}

/** A number where the user wrote one: `5` is a number, `30m` and `none` are texts. */
function valueOf(text: string): string | number {
  const number = Number(text);
  return text !== '' && Number.isFinite(number) ? number : text;
}

/** The request of a draft. What is empty is omitted, so that settings and defaults apply. */
export function requestOf(draft: Draft): StartRun {
  const settings: Record<string, string | number> = {};
  if (draft.model.trim() !== '') settings['model'] = draft.model.trim();
  if (draft.onAsk !== '') settings['on_ask'] = draft.onAsk;
  for (const [key, text] of Object.entries(draft.limits)) {
    if (text.trim() !== '') settings[key] = valueOf(text.trim());
  }
  const allow = draft.allow.split('\n').map((line) => line.trim()).filter((line) => line !== '');
  const given = (name: string, text: string) => (text.trim() === '' ? {} : { [name]: text.trim() });
  return {
    ...given('request', draft.request),
    ...given('dir', draft.dir),
    ...given('agent', draft.agent),
    ...given('skill', draft.skill),
    ...(draft.hasPlan && draft.plan.trim() !== '' ? { plan: draft.plan } : {}),
    ...(allow.length > 0 ? { allow } : {}),
    ...(Object.keys(settings).length > 0 ? { settings } : {}),
  };
}
