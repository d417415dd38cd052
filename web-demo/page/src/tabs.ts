/** The two tabs. The address says which is open, so that each can be linked to. */

import { element } from './dom.ts';

export type Tab = 'labels' | 'questions';

const TABS: readonly Tab[] = ['labels', 'questions'];

/** The open tab. */
export function tab(): Tab {
  return location.hash === '#questions' ? 'questions' : 'labels';
}

/** Watches the tabs; `changed` is called after another one was opened. */
export function startTabs(changed: () => void): void {
  for (const name of TABS) {
    const button = element(`tab-${name}`, HTMLButtonElement);
    button.addEventListener('click', () => {
      if (tab() !== name) location.hash = name === 'labels' ? '' : name;
    });
    button.addEventListener('keydown', (event) => {
      if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
      const other = element(`tab-${name === 'labels' ? 'questions' : 'labels'}`, HTMLButtonElement);
      other.focus();
      other.click();
    });
  }
  // The address says which tab is open, so this is not followed as a link.
  document.querySelector('.skip')?.addEventListener('click', (event) => {
    event.preventDefault();
    element(tab() === 'questions' ? 'd-state' : 'text', HTMLTextAreaElement).focus();
  });
  addEventListener('hashchange', () => {
    show();
    changed();
  });
  show();
}

function show(): void {
  for (const name of TABS) {
    const open = name === tab();
    const button = element(`tab-${name}`, HTMLButtonElement);
    button.setAttribute('aria-selected', String(open));
    button.tabIndex = open ? 0 : -1;
    element(`panel-${name}`, HTMLDivElement).hidden = !open;
  }
}
