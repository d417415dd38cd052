/** Light and dark: the system's choice until a person makes one. */

import { element } from './dom.ts';

const KEY = 'dikast-theme';

export function startTheme(): void {
  const button = element('theme', HTMLButtonElement);
  const system = matchMedia('(prefers-color-scheme: dark)');
  const isDark = (): boolean => {
    const chosen = document.documentElement.dataset['theme'];
    return chosen === undefined ? system.matches : chosen === 'dark';
  };
  const show = (): void => button.setAttribute('aria-pressed', String(isDark()));
  button.addEventListener('click', () => {
    const theme = isDark() ? 'light' : 'dark';
    document.documentElement.dataset['theme'] = theme;
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // It holds for this visit.
    }
    show();
  });
  system.addEventListener('change', show);
  show();
}
