// Commands of the page: a key so that none takes effect twice, and the problem of one that did not work.

import type { Problem } from '../api/client';
import { ApiError } from '../api/transport';

/** A key for a request that is sent again after a lost connection. */
export function idempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Why a request did not work. */
export function problemIn(error: unknown): Problem | string {
  if (error instanceof ApiError) return error.problem;
  return error instanceof Error ? error.message : String(error);
}
