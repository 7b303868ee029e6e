// Whose session this is, and what it may do.

import { getSession, type ServerSession, type TokenRight } from '../api/client';
import { poll } from '../lib/poll';

/** A session changes rarely: when the token is revoked, or a project is added. */
const EVERY_MS = 30_000;

let current = $state.raw<ServerSession>();

const polling = poll(
  () => EVERY_MS,
  async (signal) => {
    current = await getSession({ signal });
    return true;
  },
);

export const session = {
  get current(): ServerSession | undefined {
    return current;
  },
  may(right: TokenRight): boolean {
    return current?.rights.includes(right) ?? false;
  },
  readAgain(): void {
    polling.now();
  },
};
