// What a subtree may spend, and what it has spent.

import type { Agent, Budget } from '../api/client';
import { count, duration, short, tokens, usd } from './format';

export type BudgetPart = 'tokens' | 'usd' | 'agents' | 'wall_ms';

/** One limit of a budget. */
export interface Spending {
  readonly part: BudgetPart;
  readonly label: string;
  readonly spent: number;
  readonly most: number;
  readonly words: (value: number) => string;
}

/** The limits that a budget sets, each with what an agent and its subtree spent of it. */
export function spendingOf(budget: Budget, agent: Agent, agents: number, wallMs: number): Spending[] {
  const { subtree_usage: usage } = agent;
  const parts: [BudgetPart, string, number, (value: number) => string][] = [
    ['tokens', 'Tokens', tokens(usage), short],
    ['usd', 'Cost', usage.usd_at_most ?? usage.usd_known, usd],
    ['agents', 'Agents', agents, count],
    ['wall_ms', 'Time', wallMs, duration],
  ];
  return parts.flatMap(([part, label, spent, words]) => {
    const most = budget[part];
    return typeof most === 'number' ? [{ part, label, spent, most, words }] : [];
  });
}
