/** The card of the labels: the ranking, or what the card shows in its place. */

import type { Classification, ModelInfo } from 'dikast-web';

import { Bars } from './bars.ts';
import { Card } from './card.ts';
import { element } from './dom.ts';
import { count, milliseconds, percent } from './format.ts';

export class Verdict extends Card {
  readonly bars = new Bars();

  constructor() {
    super('', element('bars', HTMLOListElement));
  }

  judged(answer: Classification, info: ModelInfo): void {
    const { receipt, timing } = answer;
    this.bars.show(answer);
    this.bars.stale(false);
    const where = info.backend === 'cpu' ? 'CPU' : 'GPU';
    const dropped = receipt.dropped_text_tokens;
    const best = [...answer.scores].sort((a, b) => b.score - a.score).slice(0, 3);
    this.answer(
      `${milliseconds(timing.engine_ms)} · ${count(receipt.tokens)} tokens · ${where}`,
      dropped === 0 ? '' : `The text is longer than the model reads: its last ${count(dropped)} tokens were left out.`,
      best.map(({ label, score }) => `${label} ${percent(score)}`).join(', '),
    );
  }
}
