// Dark or light: what the system says, unless the user chose one.

export type Theme = 'system' | 'dark' | 'light';
export const THEMES: readonly Theme[] = ['system', 'dark', 'light'];

const KEY = 'posse.theme';

function stored(): Theme {
  const value = localStorage.getItem(KEY);
  return value === 'dark' || value === 'light' ? value : 'system';
}

let chosen = $state<Theme>(stored());
const system = matchMedia('(prefers-color-scheme: dark)');
let systemIsDark = $state(system.matches);
system.addEventListener('change', () => {
  systemIsDark = system.matches;
  show();
});

function show(): void {
  document.documentElement.dataset['theme'] = theme.isDark ? 'dark' : 'light';
}

export const theme = {
  get chosen(): Theme {
    return chosen;
  },
  get isDark(): boolean {
    return chosen === 'system' ? systemIsDark : chosen === 'dark';
  },
  choose(value: Theme): void {
    chosen = value;
    if (value === 'system') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, value);
    show();
  },
};
show();
