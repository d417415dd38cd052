/** The card on the right: loading, a failure, or the ranking. Always exactly one of them. */

import type { Classification, DikastError, ModelInfo, Progress } from 'dikast-web';

import { Bars } from './bars.ts';
import { element } from './dom.ts';
import { bytes, count, milliseconds, percent } from './format.ts';
import { explain } from './messages.ts';

const STAGES: Record<Progress['stage'], string> = {
  program: 'Fetching the engine',
  fetch: 'Downloading the model',
  cache: 'Reading the model kept in this browser',
  prepare: 'Preparing the model',
  upload: 'Moving the model to the graphics device',
};

/** A pause before a result is read out, so that typing is not talked over. */
const ANNOUNCE_MS = 700;

export class Verdict {
  readonly bars = new Bars();
  readonly #loading = element('loading', HTMLDivElement);
  readonly #what = element('loading-what', HTMLParagraphElement);
  readonly #bar = element('loading-bar', HTMLProgressElement);
  readonly #bytes = element('loading-bytes', HTMLSpanElement);
  readonly #failure = element('failure', HTMLDivElement);
  readonly #placeholder = element('placeholder', HTMLParagraphElement);
  readonly #timing = element('timing', HTMLParagraphElement);
  readonly #remark = element('remark', HTMLParagraphElement);
  readonly #announce = element('announce', HTMLParagraphElement);
  #timer = 0;

  progress({ stage, done, total }: Progress): void {
    this.#only(this.#loading);
    this.#what.textContent = STAGES[stage];
    if (total > 0 && stage !== 'prepare') {
      this.#bar.value = done / total;
      this.#bytes.textContent = `${bytes(done)} of ${bytes(total)}`;
    } else {
      this.#bar.removeAttribute('value');
      this.#bytes.textContent = '';
    }
  }

  /** @param offers which buttons make sense */
  failure(error: DikastError, offers: { retry: boolean; cpu: boolean; back: boolean }): void {
    const { title, text, hint } = explain(error);
    element('failure-title', HTMLHeadingElement).textContent = title;
    element('failure-text', HTMLParagraphElement).textContent = text;
    element('failure-hint', HTMLParagraphElement).textContent = hint;
    element('failure-code', HTMLElement).textContent = `${error.kind}: ${error.message}`;
    element('failure-retry', HTMLButtonElement).hidden = !offers.retry;
    element('failure-cpu', HTMLButtonElement).hidden = !offers.cpu;
    element('failure-back', HTMLButtonElement).hidden = !offers.back;
    this.#failure.dataset['kind'] = error.kind;
    this.#only(this.#failure);
    this.#say('');
  }

  placeholder(text: string): void {
    this.#placeholder.textContent = text;
    this.#only(this.#placeholder);
    this.#say('');
  }

  answer(answer: Classification, info: ModelInfo): void {
    const { receipt, timing } = answer;
    this.#only(undefined);
    this.bars.show(answer);
    this.bars.stale(false);
    const where = info.backend === 'cpu' ? 'CPU' : 'GPU';
    this.#timing.textContent = `${milliseconds(timing.engine_ms)} · ${count(receipt.tokens)} tokens · ${where}`;
    const dropped = receipt.dropped_text_tokens;
    this.#remark.hidden = dropped === 0;
    this.#remark.textContent = `The text is longer than the model reads: its last ${count(dropped)} tokens were left out.`;
    const best = [...answer.scores].sort((a, b) => b.score - a.score).slice(0, 3);
    this.#say(best.map(({ label, score }) => `${label} ${percent(score)}`).join(', '));
  }

  #only(shown: HTMLElement | undefined): void {
    for (const part of [this.#loading, this.#failure, this.#placeholder]) part.hidden = part !== shown;
    if (shown) {
      this.bars.hide();
      this.#timing.textContent = '';
      this.#remark.hidden = true;
    }
  }

  #say(text: string): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (this.#announce.textContent = text), ANNOUNCE_MS);
  }
}
