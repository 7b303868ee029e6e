// Notices of the browser about new questions, if the user wants them in this browser.

import type { Question } from '../api/client';
import { agentNumber, runOf } from '../lib/format';
import { go } from '../lib/router.svelte';
import { visibleText } from '../lib/visible';

const KEY = 'posse.notices';
/** Longer operations are cut: the inbox has them in full. */
const TEXT_MAX = 240;

export type NoticeState = 'off' | 'on' | 'blocked' | 'unsupported';

const isSupported = typeof Notification !== 'undefined';

function stateNow(): NoticeState {
  if (!isSupported) return 'unsupported';
  if (Notification.permission === 'denied') return 'blocked';
  return Notification.permission === 'granted' && localStorage.getItem(KEY) === 'on' ? 'on' : 'off';
}

let state = $state<NoticeState>(stateNow());

export const notices = {
  get state(): NoticeState {
    return state;
  },
  /** Asks the browser for its permission. */
  async turnOn(): Promise<void> {
    if (!isSupported) return;
    const answer = await Notification.requestPermission();
    if (answer === 'granted') localStorage.setItem(KEY, 'on');
    state = stateNow();
  },
  turnOff(): void {
    localStorage.removeItem(KEY);
    state = stateNow();
  },
  /** Shows a question, unless the user looks at the page. */
  show(question: Question): void {
    if (state !== 'on' || (!document.hidden && document.hasFocus())) return;
    const text = visibleText(question.operation);
    try {
      const notice = new Notification(`Agent ${agentNumber(question.agent)} of run ${runOf(question.agent)} asks`, {
        body: text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)} …` : text,
        tag: `${question.agent} ${question.call_id}`,
      });
      notice.onclick = () => {
        window.focus();
        go(['inbox']);
        notice.close();
      };
    } catch {
      // Some browsers show notices only from a service worker.
      state = 'unsupported';
    }
  },
};
