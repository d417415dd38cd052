/** A checkpoint folder on a server, kept in the browser's cache. */

import { DikastError } from '../errors.js';
import type { Manifest, LoadedModel } from '../types.js';
import type { ModelCache } from './cache/cache.js';
import { type Checkpoint, Sums } from './checkpoint.js';
import { Download } from './download.js';
import { type Validators, look, same } from './http.js';
import type { Intake } from './intake.js';
import type { Tracker } from './progress.js';

export class RemoteFiles implements Checkpoint {
  readonly #base: string;
  readonly #manifest: Manifest | undefined;
  readonly #cache: ModelCache;
  readonly #intake: Intake;
  readonly #tracker: Tracker;
  readonly #sums = new Sums();
  readonly #looks = new Map<string, Promise<Validators | undefined>>();
  readonly #repaired: string[] = [];
  #fetched = 0;
  #fromCache = 0;

  constructor(base: string, manifest: Manifest | undefined, cache: ModelCache, intake: Intake, tracker: Tracker) {
    this.#base = base;
    this.#manifest = manifest;
    this.#cache = cache;
    this.#intake = intake;
    this.#tracker = tracker;
    for (const [file, { bytes, sha256 }] of Object.entries(manifest?.files ?? {})) {
      this.#sums.expect({ [file]: sha256 });
      // Whatever else the folder holds is not loaded.
      if (/^(config|joint_head_config|processor_config|tokenizer)\.json$|\.safetensors$/.test(file)) tracker.expect(file, bytes);
    }
  }

  async deliver(file: string): Promise<void> {
    if (!(await this.#deliverKept(file))) await this.#deliverFresh(file);
    this.#sums.verify(file, this.#url(file));
  }

  async deliverIfThere(file: string): Promise<boolean> {
    // A manifest is complete.
    if (this.#manifest && !(file in this.#manifest.files)) return false;
    try {
      await this.deliver(file);
      return true;
    } catch (error) {
      const absent = ['HttpStatus', 'NotACheckpoint', 'Unreachable'];
      if (error instanceof DikastError && absent.includes(error.kind)) return false;
      throw error;
    }
  }

  async size(file: string): Promise<number | undefined> {
    const known = this.#manifest?.files[file]?.bytes;
    if (known !== undefined) return known;
    try {
      return (await this.#look(file))?.length;
    } catch (error) {
      const kept = await this.#cache.find(file);
      if (kept?.complete) return kept.bytes;
      throw error;
    }
  }

  expect(sums: Readonly<Record<string, string>>): void {
    // The page's own manifest stands above what the server says.
    if (!this.#manifest) this.#sums.expect(sums);
  }

  origin(): LoadedModel['origin'] {
    const from = this.#fetched === 0 ? 'cache' : this.#fromCache === 0 ? 'network' : 'mixed';
    return {
      from,
      cached: this.#cache.kind,
      repaired: this.#repaired,
      fetched_bytes: this.#fetched,
      verified: this.#sums.complete,
    };
  }

  #url(file: string): string {
    return new URL(file, this.#base).href;
  }

  #look(file: string): Promise<Validators | undefined> {
    const looked = this.#looks.get(file) ?? look(this.#url(file));
    this.#looks.set(file, looked);
    return looked;
  }

  /** From the cache, if it is whole, current and undamaged. */
  async #deliverKept(file: string): Promise<boolean> {
    const kept = await this.#cache.find(file);
    if (!kept?.complete || !(await this.#isCurrent(file, kept.sha256, kept.validators))) return false;
    this.#tracker.expect(file, kept.bytes);
    this.#tracker.stage('cache', file);
    this.#intake.begin(file, kept.bytes);
    let done = 0;
    try {
      for await (const chunk of this.#cache.read(file, kept)) {
        this.#intake.write(chunk);
        done += chunk.length;
        this.#tracker.at(file, done);
      }
    } catch (error) {
      // Storage that cannot be read is damaged; anything else is not the cache's fault.
      if (!(error instanceof DOMException)) throw error;
      done = -1;
    }
    const sum = await this.#intake.end();
    if (done === kept.bytes && sum === kept.sha256) {
      this.#fromCache += done;
      this.#sums.found(file, sum);
      return true;
    }
    this.#intake.discard(file);
    this.#tracker.at(file, 0);
    this.#repaired.push(file);
    await this.#cache.remove(file);
    return false;
  }

  async #isCurrent(file: string, sum: string | undefined, validators: Validators): Promise<boolean> {
    const expected = this.#sums.expected(file);
    if (expected !== undefined) return sum === expected;
    try {
      const now = await this.#look(file);
      return now === undefined || same(now, validators);
    } catch (error) {
      // Offline: what is here is the best there is.
      return error instanceof DikastError && error.kind === 'Unreachable';
    }
  }

  async #deliverFresh(file: string): Promise<void> {
    const bytes = this.#manifest?.files[file]?.bytes;
    const sha256 = this.#sums.expected(file);
    const download = new Download(this.#url(file), file, { bytes, sha256 }, this.#cache, this.#intake, this.#tracker);
    this.#sums.found(file, await download.run());
    this.#fetched += download.fetched;
  }
}
