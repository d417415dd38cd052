/** Answers as one types: waits for a pause, and only the latest question counts. */

import type { DikastError } from 'dikast-web';

/** Answers one question. */
export type Answerer<Question, Answer> = (question: Question, signal: AbortSignal) => Promise<Answer>;

export interface Listener<Question, Answer> {
  /** There is a new question; what is shown is now old. */
  asked(): void;
  answered(answer: Answer, question: Question): void;
  failed(error: DikastError): void;
}

/** Long enough to skip most keystrokes, short enough to feel live. */
export const PAUSE_MS = 90;

export class Asker<Question, Answer> {
  readonly #listener: Listener<Question, Answer>;
  #answerer: Answerer<Question, Answer> | undefined;
  #timer = 0;
  #current: AbortController | undefined;

  constructor(listener: Listener<Question, Answer>) {
    this.#listener = listener;
  }

  /** What answers from now on; `undefined` while there is no model. */
  use(answerer: Answerer<Question, Answer> | undefined): void {
    this.#answerer = answerer;
    this.#current?.abort();
  }

  /** Asks, after a pause in which nothing else is asked. */
  ask(question: Question, pause: number): void {
    this.#listener.asked();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      void this.#send(question);
    }, pause);
  }

  /** There is nothing to ask: answers on their way are not wanted any more. */
  drop(): void {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#current?.abort();
  }

  async #send(question: Question): Promise<void> {
    const answerer = this.#answerer;
    if (!answerer) return;
    this.#current?.abort();
    const current = new AbortController();
    this.#current = current;
    try {
      const answer = await answerer(question, current.signal);
      if (current.signal.aborted) return;
      this.#listener.answered(answer, question);
      // What has been typed since waits for its pause: this answer is old already.
      if (this.#timer) this.#listener.asked();
    } catch (error) {
      if (current.signal.aborted) return;
      this.#listener.failed(error as DikastError);
    }
  }
}
