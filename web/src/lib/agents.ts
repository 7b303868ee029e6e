// What the states of an agent mean for a reader, and the tree of a run.

import type { Agent } from '../api/client';
import { agentNumber } from './format';

export interface Stage {
  /** The class of its badge. */
  readonly kind: '' | 'good' | 'bad' | 'warn' | 'live' | 'odd';
  readonly words: string;
  /** The reason, if it has one. */
  readonly why: string | undefined;
}

export function stageOf(agent: Agent): Stage {
  const why = agent.blocked ?? agent.reason ?? undefined;
  if (agent.final_status === 'completed') {
    return agent.turns_exhausted ? { kind: 'warn', words: 'turn limit', why } : { kind: 'good', words: 'completed', why };
  }
  if (agent.close_reason === 'cancelled' || agent.code === 'CANCELLED') return { kind: '', words: 'cancelled', why };
  if (agent.final_status === 'failed' || agent.state === 'failed') return { kind: 'bad', words: 'failed', why };
  if (agent.blocked_on?.kind === 'approver') {
    return agent.blocked_on.answered
      ? { kind: 'odd', words: 'answered', why: 'The question was answered, but no process executes the run.' }
      : { kind: 'warn', words: 'waits for you', why };
  }
  if (agent.blocked_on?.kind === 'provider') return { kind: 'warn', words: 'waits', why };
  if (agent.state === 'waiting_for_merge') return { kind: 'odd', words: 'integration', why };
  if (agent.state === 'created') return { kind: '', words: 'queued', why };
  if (agent.state === 'completed') return { kind: 'good', words: 'integrated', why };
  return { kind: 'live', words: 'running', why };
}

export function isClosed(agent: Agent): boolean {
  return agent.final_status !== null;
}

/** What an agent does or why it ended, in one line. */
export function statusLine(agent: Agent): string {
  if (agent.blocked) return agent.blocked;
  if (!isClosed(agent)) return agent.activity ?? '';
  return agent.reason ?? '';
}

/** An agent in the tree. */
export interface Node {
  readonly agent: Agent;
  readonly children: Node[];
  readonly number: string;
}

/** The tree of the agents of a run, which are listed with parents first. */
export function treeOf(agents: readonly Agent[]): Node[] {
  const nodes = new Map<string, Node>();
  const roots: Node[] = [];
  for (const agent of agents) {
    const node: Node = { agent, children: [], number: agentNumber(agent.id) };
    nodes.set(agent.id, node);
    const parent = agent.parent === null ? undefined : nodes.get(agent.parent);
    (parent?.children ?? roots).push(node);
  }
  // The server lists them as they were created; several of the same moment are in the order of their texts.
  for (const { children } of nodes.values()) children.sort((one, other) => place(one) - place(other));
  return roots;
}

/** The number of an agent among the children of its parent. */
function place({ number }: Node): number {
  return Number(number.slice(number.lastIndexOf('.') + 1));
}

/** The rows of a tree in their order, without what is below a folded one. */
export function rowsOf(roots: readonly Node[], folded: ReadonlySet<string>): Node[] {
  const rows: Node[] = [];
  const visit = (nodes: readonly Node[]) => {
    for (const node of nodes) {
      rows.push(node);
      if (!folded.has(node.agent.id)) visit(node.children);
    }
  };
  visit(roots);
  return rows;
}

/** The agents of a subtree, with its root. */
export function subtreeOf(agents: readonly Agent[], root: string): Agent[] {
  return agents.filter((agent) => agent.id === root || agent.id.startsWith(`${root}.`));
}

/** Agents of the same parent in the order of their numbers: `2.9` comes before `2.10`. */
export function inOrder(agents: readonly Agent[]): Agent[] {
  const last = (agent: Agent) => Number(agent.id.slice(agent.id.lastIndexOf('.') + 1));
  return [...agents].sort((one, other) => last(one) - last(other));
}
