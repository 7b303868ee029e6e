// Every view of the page. A new one is a component in this directory and its row here.

import type { Component } from 'svelte';

import Costs from './costs/Costs.svelte';
import Definitions from './definitions/Definitions.svelte';
import Inbox from './inbox/Inbox.svelte';
import Run from './run/Run.svelte';
import Runs from './runs/Runs.svelte';
import Settings from './settings/Settings.svelte';
import NewRun from './start/NewRun.svelte';

/** What a view gets: the parts of its place that its pattern names. */
export interface ViewProps {
  params: Record<string, string>;
}

export interface View {
  /** The parts of its place; `:name` stands for any part, and `*` at the end for any others. */
  readonly pattern: readonly string[];
  readonly component: Component<ViewProps>;
  /** The title of the window. */
  readonly title: (params: Record<string, string>) => string;
}

/** The first view whose pattern matches is shown. */
export const VIEWS: readonly View[] = [
  { pattern: [], component: Runs, title: () => 'Runs' },
  { pattern: ['runs'], component: Runs, title: () => 'Runs' },
  { pattern: ['inbox'], component: Inbox, title: () => 'Inbox' },
  { pattern: ['new'], component: NewRun, title: () => 'New run' },
  { pattern: ['costs'], component: Costs, title: () => 'Costs' },
  { pattern: ['definitions'], component: Definitions, title: () => 'Definitions' },
  { pattern: ['settings'], component: Settings, title: () => 'Settings' },
  { pattern: ['runs', ':run', '*'], component: Run, title: ({ run }) => `Run ${run}` },
];

export interface NavigationEntry {
  readonly label: string;
  readonly place: readonly string[];
  /** Whether its number of open questions is shown. */
  readonly hasQuestions?: boolean;
}

/** What the bar at the top leads to. */
export const NAVIGATION: readonly NavigationEntry[] = [
  { label: 'Runs', place: ['runs'] },
  { label: 'Inbox', place: ['inbox'], hasQuestions: true },
  { label: 'New run', place: ['new'] },
  { label: 'Costs', place: ['costs'] },
  { label: 'Definitions', place: ['definitions'] },
  { label: 'Settings', place: ['settings'] },
];

/** The view at a place, with the parts that its pattern names; `rest` has the parts of `*`. */
export function viewAt(
  parts: readonly string[],
): { view: View; params: Record<string, string>; rest: readonly string[] } | undefined {
  for (const view of VIEWS) {
    const isOpenEnded = view.pattern.at(-1) === '*';
    const fixed = isOpenEnded ? view.pattern.slice(0, -1) : view.pattern;
    if (isOpenEnded ? parts.length < fixed.length : parts.length !== fixed.length) continue;
    const params: Record<string, string> = {};
    const matches = fixed.every((name, at) => {
      const part = parts[at] ?? '';
      if (!name.startsWith(':')) return name === part;
      params[name.slice(1)] = part;
      return true;
    });
    if (matches) return { view, params, rest: parts.slice(fixed.length) };
  }
  return undefined;
}
