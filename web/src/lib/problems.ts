// What the server says about a request that it refused, and the field of a form that this is about.

import type { Problem } from '../api/client';
import { ApiError } from '../api/transport';

/** An error as the page shows it. */
export function problemOf(error: unknown): Problem | string {
  if (error instanceof ApiError) return error.problem;
  return error instanceof Error ? error.message : String(error);
}

/** Whether a problem is about this field or a part of it: `rules[0].pattern` is about `rules`. */
export function isAbout(problem: Problem | string | undefined, field: string): boolean {
  if (problem === undefined || typeof problem === 'string') return false;
  const named = problem.field ?? (problem.code === 'MODEL_KEY_MISSING' ? 'settings.model' : '');
  return named === field || named.startsWith(`${field}.`) || named.startsWith(`${field}[`);
}
