/** Answers as one types: waits for a pause, and only the latest question counts. */

import { type Classification, type Classifier, DikastError } from 'dikast-web';

export interface Question {
  text: string;
  labels: readonly string[];
  single: boolean;
  threshold: number;
}

export interface Listener {
  /** There is a new question; what is shown is now old. */
  asked(): void;
  answered(answer: Classification, question: Question): void;
  failed(error: DikastError): void;
}

/** Long enough to skip most keystrokes, short enough to feel live. */
export const PAUSE_MS = 90;

export class Asker {
  readonly #listener: Listener;
  #classifier: Classifier | undefined;
  #timer = 0;
  #current: AbortController | undefined;

  constructor(listener: Listener) {
    this.#listener = listener;
  }

  /** The model that answers from now on; `undefined` while there is none. */
  use(classifier: Classifier | undefined): void {
    this.#classifier = classifier;
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
    const classifier = this.#classifier;
    if (!classifier) return;
    this.#current?.abort();
    const current = new AbortController();
    this.#current = current;
    try {
      const answer = await classifier.classify(question.text, question.labels, {
        multi_label: !question.single,
        threshold: question.threshold,
        truncation: 'text',
        signal: current.signal,
      });
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
