/** The short line in the header. */

import { element } from './dom.ts';

export function showState(state: 'busy' | 'ready' | 'failed', text: string): void {
  element('state', HTMLParagraphElement).dataset['state'] = state;
  element('state-text', HTMLSpanElement).textContent = text;
}
