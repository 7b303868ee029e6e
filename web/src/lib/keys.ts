// Keys that work everywhere in the page. In a field, a key is a letter.

import { go } from './router.svelte';

/** Keys after `g`, and where they lead. */
export const DESTINATIONS: readonly { key: string; label: string; place: readonly string[] }[] = [
  { key: 'r', label: 'Runs', place: ['runs'] },
  { key: 'i', label: 'Inbox', place: ['inbox'] },
  { key: 'n', label: 'New run', place: ['new'] },
  { key: 'c', label: 'Costs', place: ['costs'] },
  { key: 'd', label: 'Definitions', place: ['definitions'] },
  { key: 's', label: 'Settings', place: ['settings'] },
];

const TOGETHER_MS = 1_000;

let pressedAt = 0;

/** Whether a key is a letter of a field. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target;
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName));
}

/** Does what a key means, and says whether it is the one that asks for help. */
export function onKey(event: KeyboardEvent): 'help' | undefined {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event) || event.defaultPrevented) return undefined;
  if (event.key === '?') return 'help';
  if (event.key === '/') {
    const field = document.querySelector<HTMLInputElement>('main input[type="search"]');
    if (field !== null) {
      event.preventDefault();
      field.focus();
      field.select();
    }
    return undefined;
  }
  const isSecond = performance.now() - pressedAt < TOGETHER_MS;
  pressedAt = event.key === 'g' ? performance.now() : 0;
  if (!isSecond) return undefined;
  const destination = DESTINATIONS.find(({ key }) => key === event.key);
  if (destination !== undefined) {
    event.preventDefault();
    go(destination.place);
  }
  return undefined;
}
