import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { RunTimeline } from '../src/api/client';
import { busyOf, inside, niceStep, tickWords, timeOf, xOf, zoomed } from '../src/views/run/tracks';

const whole = { from: 0, until: 1_000 };

test('a zoom keeps its centre and stays within the run', () => {
  assert.deepEqual(zoomed(whole, 500, 0.5, whole), { from: 250, until: 750 });
  assert.deepEqual(zoomed({ from: 0, until: 500 }, 0, 4, whole), whole);
  assert.deepEqual(inside({ from: 900, until: 1_400 }, whole), { from: 500, until: 1_000 });
  const near = zoomed({ from: 0, until: 6 }, 3, 0.001, whole);
  assert.equal(near.until - near.from, 5);
});

test('places and times are the inverse of each other', () => {
  const range = { from: 250, until: 750 };
  assert.equal(xOf(500, range, 400), 200);
  assert.equal(timeOf(xOf(333, range, 400), range, 400), 333);
});

test('the steps of the axis are round', () => {
  assert.deepEqual([0.3, 3, 40, 900, 1_200, 9_000, 12_000, 70_000, 4_000_000].map(niceStep), [
    1, 5, 50, 1_000, 2_000, 10_000, 15_000, 120_000, 7_200_000,
  ]);
  assert.equal(tickWords(0, 500), '0');
  assert.equal(tickWords(1_500, 500), '1.5 s');
  assert.equal(tickWords(90_000, 15_000), '1:30');
  assert.equal(tickWords(3_661_000, 60_000), '1:01:01');
});

test('the number of agents at work is counted over time', () => {
  const track = (spans: [string, number][], until_ms: number | null) => ({
    until_ms,
    spans: spans.map(([activity, from_ms]) => ({ activity, from_ms })),
  });
  const timeline = {
    tracks: [
      track([['waiting', 0], ['model', 10], ['tools', 20], ['waiting', 30]], 40),
      track([['model', 15]], null),
    ],
  } as unknown as RunTimeline;
  assert.deepEqual(busyOf(timeline, 50), [
    { from: 10, agents: 1 },
    { from: 15, agents: 2 },
    { from: 20, agents: 2 },
    { from: 30, agents: 1 },
    { from: 50, agents: 0 },
  ]);
});
