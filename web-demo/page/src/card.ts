/** A card on the right: loading, a failure, a hint, or what its tab shows. Always exactly one of them. */

import type { DikastError, Progress } from 'dikast-web';

import { element } from './dom.ts';
import { bytes } from './format.ts';
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

export class Card {
  readonly #prefix: string;
  readonly #shown: HTMLElement;
  readonly #loading: HTMLElement;
  readonly #failure: HTMLElement;
  readonly #placeholder: HTMLElement;
  #timer = 0;

  /** Of the elements whose ids begin with `prefix`; `shown` is what a tab shows of its own. */
  constructor(prefix: string, shown: HTMLElement) {
    this.#prefix = prefix;
    this.#shown = shown;
    this.#loading = this.#part('loading', HTMLDivElement);
    this.#failure = this.#part('failure', HTMLDivElement);
    this.#placeholder = this.#part('placeholder', HTMLParagraphElement);
  }

  progress({ stage, done, total }: Progress): void {
    this.#only(this.#loading);
    this.#part('loading-what', HTMLParagraphElement).textContent = STAGES[stage];
    const bar = this.#part('loading-bar', HTMLProgressElement);
    const sizes = this.#part('loading-bytes', HTMLSpanElement);
    if (total > 0 && stage !== 'prepare') {
      bar.value = done / total;
      sizes.textContent = `${bytes(done)} of ${bytes(total)}`;
    } else {
      bar.removeAttribute('value');
      sizes.textContent = '';
    }
  }

  /** @param offers which buttons make sense */
  failure(error: DikastError, offers: { retry: boolean; cpu: boolean; back: boolean }): void {
    const { title, text, hint } = explain(error);
    this.#part('failure-title', HTMLHeadingElement).textContent = title;
    this.#part('failure-text', HTMLParagraphElement).textContent = text;
    this.#part('failure-hint', HTMLParagraphElement).textContent = hint;
    this.#part('failure-code', HTMLElement).textContent = `${error.kind}: ${error.message}`;
    this.#part('failure-retry', HTMLButtonElement).hidden = !offers.retry;
    this.#part('failure-cpu', HTMLButtonElement).hidden = !offers.cpu;
    this.#part('failure-back', HTMLButtonElement).hidden = !offers.back;
    this.#failure.dataset['kind'] = error.kind;
    this.#only(this.#failure);
    this.#say('');
  }

  placeholder(text: string): void {
    this.#placeholder.textContent = text;
    this.#only(this.#placeholder);
    this.#say('');
  }

  /** What the tab itself shows. @param say read out after a pause */
  answer(timing: string, remark: string, say: string): void {
    this.#only(undefined);
    this.#shown.hidden = false;
    this.#part('timing', HTMLParagraphElement).textContent = timing;
    const element = this.#part('remark', HTMLParagraphElement);
    element.hidden = remark === '';
    element.textContent = remark;
    this.#say(say);
  }

  #part<T extends HTMLElement>(name: string, type: new () => T): T {
    return element(this.#prefix + name, type);
  }

  #only(shown: HTMLElement | undefined): void {
    for (const part of [this.#loading, this.#failure, this.#placeholder]) part.hidden = part !== shown;
    if (shown) {
      this.#shown.hidden = true;
      this.#part('timing', HTMLParagraphElement).textContent = '';
      this.#part('remark', HTMLParagraphElement).hidden = true;
    }
  }

  #say(text: string): void {
    clearTimeout(this.#timer);
    const announce = this.#part('announce', HTMLParagraphElement);
    this.#timer = setTimeout(() => (announce.textContent = text), ANNOUNCE_MS);
  }
}
