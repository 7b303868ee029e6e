// The tabs of a run. A new one is a component and its row here.

import type { Component } from 'svelte';

import type { RunDetail } from '../../api/client';
import { isOpen } from '../../stores/runs.svelte';
import type { RunStore } from '../../stores/run.svelte';
import Agent from '../agent/Agent.svelte';
import Changes from '../changes/Changes.svelte';
import Agents from './Agents.svelte';
import Journal from './Journal.svelte';
import Outcome from './Outcome.svelte';
import Plan from './Plan.svelte';

/** What a tab gets. */
export interface TabProps {
  store: RunStore;
  /** The parts of the place after the name of the tab. */
  rest: readonly string[];
}

export interface Tab {
  /** The part of the place: `#/runs/k3f9ab2c/journal`. */
  readonly name: string;
  /** Its label in the bar of tabs; without one, other views link to it. */
  readonly label: string | undefined;
  /** The name of the tab that it belongs to, if it has no label. */
  readonly within?: string;
  readonly component: Component<TabProps>;
  /** Whether it shows `store.shown`, which the user can take back to an earlier event. */
  readonly showsPast?: boolean;
  /** Whether a run has something to show in it; without it, every run has. */
  readonly isFor?: (detail: RunDetail) => boolean;
}

/** The first one is shown without a name. */
export const TABS: readonly Tab[] = [
  { name: '', label: 'Agents', component: Agents, showsPast: true },
  { name: 'plan', label: 'Plan', component: Plan, showsPast: true, isFor: (detail) => (detail.plan?.length ?? 0) > 0 },
  { name: 'changes', label: 'Changes', component: Changes },
  { name: 'outcome', label: 'Outcome', component: Outcome, isFor: (detail) => !isOpen(detail) },
  { name: 'journal', label: 'Journal', component: Journal },
  { name: 'agents', label: undefined, within: '', component: Agent },
];
