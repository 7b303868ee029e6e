// Whether the server answers, and whether it knows the session of this browser.

import { observe } from '../api/transport';

export type Connection = 'unknown' | 'reached' | 'unreached' | 'signed-out';

const UNAUTHORIZED = 401;

let now = $state<Connection>('unknown');

observe((reached, status) => {
  if (!reached) now = 'unreached';
  else if (status === UNAUTHORIZED) now = 'signed-out';
  else now = 'reached';
});

export const connection = {
  get now(): Connection {
    return now;
  },
};
