/** The ranking: one bar a label, best first, moving to their places. */

import type { Classification, Score } from 'dikast-web';

import { element, make } from './dom.ts';
import { percent } from './format.ts';

/** More bars than this say nothing to a person. */
const MOST = 60;

const calm = matchMedia('(prefers-reduced-motion: reduce)');

export class Bars {
  readonly #list = element('bars', HTMLOListElement);
  readonly #rows = new Map<string, Row>();

  show(answer: Classification): void {
    const ranked = [...answer.scores].sort((a, b) => b.score - a.score).slice(0, MOST);
    const chosen = new Set(answer.predictions.map(({ label }) => label));
    const before = new Map([...this.#rows].map(([label, row]) => [label, row.item.offsetTop]));
    const threshold = answer.mode === 'multi-label' ? answer.threshold : undefined;
    for (const label of this.#rows.keys()) {
      if (!ranked.some((scored) => scored.label === label)) this.#rows.delete(label);
    }
    this.#list.replaceChildren(...ranked.map((scored) => this.#row(scored, chosen.has(scored.label), threshold)));
    this.#list.hidden = false;
    if (!calm.matches) this.#glide(before);
  }

  /** Says that what is shown belongs to an earlier text. */
  stale(stale: boolean): void {
    this.#list.classList.toggle('stale', stale);
  }

  #row(scored: Score, chosen: boolean, threshold: number | undefined): HTMLLIElement {
    const row = this.#rows.get(scored.label) ?? new Row(scored.label);
    this.#rows.set(scored.label, row);
    row.show(scored.score, chosen, threshold);
    return row.item;
  }

  /** Lets each row come from where it was. */
  #glide(before: ReadonlyMap<string, number>): void {
    for (const [label, { item }] of this.#rows) {
      const from = before.get(label);
      const by = from === undefined ? 0 : from - item.offsetTop;
      if (by !== 0) {
        const path = [{ transform: `translateY(${by}px)` }, { transform: 'none' }];
        item.animate(path, { duration: 260, easing: 'cubic-bezier(.2, .8, .3, 1)' });
      }
    }
  }
}

class Row {
  readonly item: HTMLLIElement;
  readonly #value = make('span', { className: 'value' });
  readonly #fill = make('span', { className: 'fill' });
  readonly #tick = make('span', { className: 'tick' });
  readonly #mark = make('span', { className: 'mark' });

  constructor(label: string) {
    const name = make('span', { className: 'name', title: label }, label, this.#mark);
    const track = make('span', { className: 'track', ariaHidden: 'true' }, this.#fill, this.#tick);
    this.item = make('li', {}, name, this.#value, track);
    this.item.dataset['label'] = label;
  }

  show(score: number, chosen: boolean, threshold: number | undefined): void {
    this.item.classList.toggle('chosen', chosen);
    this.item.dataset['score'] = String(score);
    this.#mark.textContent = chosen ? '✓' : '';
    this.#mark.title = chosen ? 'chosen' : '';
    this.#value.textContent = percent(score);
    this.#fill.style.transform = `scaleX(${Math.max(score, 0.004)})`;
    this.#tick.hidden = threshold === undefined;
    if (threshold !== undefined) this.#tick.style.insetInlineStart = `${threshold * 100}%`;
  }
}
