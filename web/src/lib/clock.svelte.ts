// The time, once a second, for everything that shows how long something takes. It stands still in a hidden tab.

let now = $state(Date.now());

setInterval(() => {
  if (!document.hidden) now = Date.now();
}, 1_000);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) now = Date.now();
});

export const clock = {
  get now(): number {
    return now;
  },
};
