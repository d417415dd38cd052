/** Zero-shot classification: any labels for a text. */

import { Engine, type LoadOptions } from './engine.js';
import type { Classification, Labels, ModelInfo, RequestOptions, Source } from './types.js';

export interface ClassifyOptions extends RequestOptions {
  /** Gives the request up: it is taken out of the queue, or its answer is thrown away. */
  signal?: AbortSignal;
}

/** A GLiClass model, ready to answer. Make one with {@link Classifier.load}. */
export class Classifier {
  readonly #engine: Engine<ModelInfo>;

  private constructor(engine: Engine<ModelInfo>) {
    this.#engine = engine;
  }

  /**
   * Loads a model: checks the browser, fetches the small files and checks them, then the weights.
   *
   * @throws DikastError
   */
  static async load(source: Source, options: LoadOptions = {}): Promise<Classifier> {
    return new Classifier(await Engine.load<ModelInfo>('classifier', source, options));
  }

  /** What was loaded and where it runs. */
  get info(): ModelInfo {
    return this.#engine.info;
  }

  /**
   * Scores each label for a text. Requests are answered one after the other, in order.
   *
   * @throws DikastError
   */
  async classify(text: string, labels: Labels, options: ClassifyOptions = {}): Promise<Classification> {
    const { signal, ...fields } = options;
    const written = await this.#engine.ask(JSON.stringify({ text, labels, ...fields }), '', signal);
    const answer = JSON.parse(written.text) as Omit<Classification, 'timing'>;
    return { ...answer, timing: { engine_ms: written.engine_ms } };
  }

  /** Gives up every request that has no answer yet. */
  cancel(): void {
    this.#engine.cancel();
  }

  /** Gives everything back: requests are cancelled, the worker and its memory go. */
  dispose(): void {
    this.#engine.dispose();
  }
}
