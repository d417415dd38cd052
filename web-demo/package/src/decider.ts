/** Typed questions about text, JSON and pictures. */

import type { DecideChoices, DecideRequest, Decision } from './decisions.js';
import { Engine, type LoadOptions } from './engine.js';
import { DikastError } from './errors.js';
import type { DeciderInfo, Source } from './types.js';

export interface DecideOptions extends DecideChoices {
  /** Gives the request up: it is taken out of the queue, or its answer is thrown away. */
  signal?: AbortSignal;
}

/** A CLEF model, ready to answer. Make one with {@link Decider.load}. */
export class Decider {
  readonly #engine: Engine<DeciderInfo>;

  private constructor(engine: Engine<DeciderInfo>) {
    this.#engine = engine;
  }

  /**
   * Loads a model: checks the browser, fetches the small files and checks them, then the weights.
   *
   * @throws DikastError
   */
  static async load(source: Source, options: LoadOptions = {}): Promise<Decider> {
    return new Decider(await Engine.load<DeciderInfo>('decider', source, options));
  }

  /** What was loaded and where it runs. */
  get info(): DeciderInfo {
    return this.#engine.info;
  }

  /**
   * Answers a System One body: all questions together, in one forward pass. Requests are answered one after the other,
   * in order.
   *
   * JavaScript has one kind of number and sorts keys that look like indices. Where a state has `1.0`, whole numbers
   * beyond 2^53 or a meaning in the order of such keys, use {@link decideJson}.
   *
   * @throws DikastError
   */
  async decide(request: DecideRequest, options: DecideOptions = {}): Promise<Decision> {
    const written = await this.#ask(body(request), options);
    return { ...(JSON.parse(written.text) as Omit<Decision, 'x_timing'>), x_timing: { engine_ms: written.engine_ms } };
  }

  /**
   * The same from text to text: the body as `POST /v1/systemone` would get it, the response as it would give it.
   *
   * @throws DikastError
   */
  async decideJson(body: string, options: DecideOptions = {}): Promise<string> {
    return (await this.#ask(body, options)).text;
  }

  /** Gives up every request that has no answer yet. */
  cancel(): void {
    this.#engine.cancel();
  }

  /** Gives everything back: requests are cancelled, the worker and its memory go. */
  dispose(): void {
    this.#engine.dispose();
  }

  #ask(body: string, { signal, ...choices }: DecideOptions) {
    return this.#engine.ask(body, JSON.stringify(choices), signal);
  }
}

function body(request: DecideRequest): string {
  try {
    // `undefined` for what has no JSON form at all.
    const text = JSON.stringify(request) as string | undefined;
    if (text !== undefined) return text;
  } catch {
    // A cycle, or a bigint.
  }
  throw new DikastError(
    { kind: 'InvalidRequest', field: 'request', detail: 'not representable as JSON' },
    'invalid request: request: not representable as JSON',
  );
}
