/** A folder that the user dropped or picked. */

import { DikastError } from '../errors.js';
import type { LoadedModel } from '../types.js';
import { type Checkpoint, Sums } from './checkpoint.js';
import type { Intake } from './intake.js';
import type { Tracker } from './progress.js';
import { refuseForeign } from './sniff.js';
import { chunks } from './streams.js';

export class PickedFiles implements Checkpoint {
  readonly #files: Map<string, File>;
  readonly #intake: Intake;
  readonly #tracker: Tracker;
  readonly #sums = new Sums();

  constructor(files: readonly File[], intake: Intake, tracker: Tracker) {
    this.#files = new Map(files.map((file) => [file.name, file]));
    this.#intake = intake;
    this.#tracker = tracker;
  }

  async deliver(name: string): Promise<void> {
    const file = this.#files.get(name);
    if (!file) throw this.#missing(name);
    this.#tracker.expect(name, file.size);
    this.#tracker.stage('fetch', name);
    this.#intake.begin(name, file.size);
    let done = 0;
    try {
      for await (const chunk of chunks(file.stream())) {
        if (done === 0) refuseForeign(chunk, name);
        this.#intake.write(chunk);
        done += chunk.length;
        this.#tracker.at(name, done);
      }
    } catch (error) {
      // What the browser says when the file changed or went away since it was picked.
      if (error instanceof DOMException) {
        throw new DikastError({ kind: 'Io', path: name, detail: error.message }, `${name}: ${error.message}`);
      }
      throw error;
    }
    this.#sums.found(name, await this.#intake.end());
    this.#sums.verify(name, name);
  }

  async deliverIfThere(name: string): Promise<boolean> {
    if (!this.#files.has(name)) return false;
    await this.deliver(name);
    return true;
  }

  async size(name: string): Promise<number | undefined> {
    const file = this.#files.get(name);
    if (!file) throw this.#missing(name);
    return file.size;
  }

  expect(sums: Readonly<Record<string, string>>): void {
    this.#sums.expect(sums);
  }

  origin(): LoadedModel['origin'] {
    return { from: 'files', cached: 'none', repaired: [], fetched_bytes: 0, verified: this.#sums.complete };
  }

  #missing(name: string): DikastError {
    const names = [...this.#files.keys()].sort();
    const found = names.length === 0 ? 'nothing' : names.slice(0, 5).join(', ') + (names.length > 5 ? ' …' : '');
    return new DikastError(
      { kind: 'Checkpoint', item: name, detail: `not in the folder; found ${found}` },
      `checkpoint: ${name}: not in the folder; found ${found}`,
    );
  }
}
