/** The short line in the header; `more` only where there is room. */

import { element } from './dom.ts';

export function showState(state: 'busy' | 'ready' | 'failed', text: string, more = ''): void {
  element('state', HTMLParagraphElement).dataset['state'] = state;
  element('state-text', HTMLSpanElement).textContent = text;
  element('state-more', HTMLSpanElement).textContent = more;
}
