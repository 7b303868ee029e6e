import assert from 'node:assert/strict';
import { mock, test } from 'node:test';

import { follow, type StreamState } from '../src/api/transport';

/** An `EventSource` that a test plays the server of. */
class FakeSource extends EventTarget {
  static readonly CLOSED = 2;
  static opened: FakeSource[] = [];
  readyState = 0;
  onopen: (() => void) | null = null;
  onmessage: ((event: MessageEvent<string>) => void) | null = null;
  onerror: (() => void) | null = null;

  constructor(readonly url: string) {
    super();
    FakeSource.opened.push(this);
  }

  close(): void {
    this.readyState = FakeSource.CLOSED;
  }

  send(id: number): void {
    this.onmessage?.(new MessageEvent('message', { data: JSON.stringify({ seq: id }), lastEventId: String(id) }));
  }

  name(name: string, data: object = {}): void {
    this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data) }));
  }

  /** The connection is lost; `isFinal` if the browser does not connect again. */
  lose(isFinal: boolean): void {
    this.readyState = isFinal ? FakeSource.CLOSED : 0;
    this.onerror?.();
  }
}

const settle = async () => {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
};

/** Follows a stream whose requests are answered with a status; without one, the server is not there. */
function started(path: string, after: number | undefined, status: number | undefined) {
  FakeSource.opened = [];
  const answer = () =>
    status === undefined
      ? Promise.reject(new TypeError('failed'))
      : Promise.resolve(
          new Response(status === 204 ? null : JSON.stringify({ status, title: 'x', detail: 'why', code: 'FAILED' }), {
            status,
          }),
        );
  Object.assign(globalThis, { EventSource: FakeSource, fetch: answer });
  const seen: number[] = [];
  const states: StreamState[] = [];
  const following = follow<{ seq: number }>(path, { after }, {
    onMessage: ({ seq }) => seen.push(seq),
    onState: (state) => states.push(state),
  });
  const last = () => FakeSource.opened.at(-1) ?? assert.fail('no stream was opened');
  return { following, seen, states, last };
}

const EVENTS = '/api/v1/runs/k3f9ab2c/events/stream';

test('a stream begins after the last known event, and no event comes twice', () => {
  const { seen, last, following } = started(EVENTS, 7, 200);
  assert.equal(last().url, `${EVENTS}?after=7`);
  for (const id of [8, 9, 9, 8, 10]) last().send(id);
  assert.deepEqual([seen, following.last], [[8, 9, 10], 10]);
});

test('a browser that connects again by itself is left alone', async () => {
  const { states, last } = started(EVENTS, 0, undefined);
  last().send(1);
  last().lose(false);
  await settle();
  assert.deepEqual([FakeSource.opened.length, states.at(-1)], [1, 'lost']);
});

test('where the browser gives up, the page connects again after the last event', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  const { seen, last, following } = started(EVENTS, 0, 503);
  last().send(1);
  last().send(2);
  last().lose(true);
  await settle();
  mock.timers.tick(1_000);
  assert.equal(FakeSource.opened.length, 2);
  assert.equal(last().url, `${EVENTS}?after=2`);
  last().send(3);
  assert.deepEqual(seen, [1, 2, 3]);
  // Nothing connects after the end.
  last().lose(true);
  following.close();
  await settle();
  mock.timers.tick(60_000);
  assert.equal(FakeSource.opened.length, 2);
  mock.timers.reset();
});

test('a stream that the server refuses, ends or revokes is over', async () => {
  for (const [status, state] of [
    [404, 'refused'],
    [204, 'ended'],
  ] as const) {
    const { states, last } = started(EVENTS, 0, status);
    last().lose(true);
    await settle();
    assert.deepEqual([states.at(-1), FakeSource.opened.length], [state, 1]);
  }
  for (const [name, state] of [
    ['end', 'ended'],
    ['revoked', 'revoked'],
    ['problem', 'refused'],
  ] as const) {
    const { states, last } = started(EVENTS, 0, 200);
    last().name(name);
    last().lose(true);
    await settle();
    assert.deepEqual([states.at(-1), FakeSource.opened.length, last().readyState], [state, 1, 2]);
  }
});

test('a stream without numbers of events has every message', () => {
  const { seen, last } = started('/api/v1/runs/k3f9ab2c/deltas/stream', undefined, 200);
  for (const id of [1, 2, 1]) last().send(id);
  assert.deepEqual(seen, [1, 2, 1]);
});
