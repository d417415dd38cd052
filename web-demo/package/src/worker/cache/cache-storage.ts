/** Cache Storage, for browsers without a private file system: `KEY/NAME` holds the facts, `KEY/NAME/0…` the bytes. */

import type { Validators } from '../http.js';
import { chunks } from '../streams.js';
import { type CacheWriter, type Kept, type ModelCache, SAFE_POINT, parseKept } from './cache.js';

const NAME = 'dikast-models';

export class CacheStorageCache implements ModelCache {
  readonly kind = 'cache-storage';
  readonly #cache: Cache;
  readonly #base: string;

  private constructor(cache: Cache, base: string) {
    this.#cache = cache;
    this.#base = base;
  }

  static async open(key: string): Promise<CacheStorageCache> {
    // Entries need an address; nothing is ever served from it.
    return new CacheStorageCache(await caches.open(NAME), new URL(`/${NAME}/${key}/`, location.origin).href);
  }

  async find(file: string): Promise<Kept | undefined> {
    const facts = await this.#cache.match(this.#url(file));
    return facts && parseKept(await facts.text());
  }

  async *read(file: string, kept: Kept): AsyncGenerator<Uint8Array> {
    for (let part = 0; part * SAFE_POINT < kept.bytes; part++) {
      const response = await this.#cache.match(this.#url(file, part));
      if (!response?.body) return;
      yield* chunks(response.body);
    }
  }

  async write(file: string, from: number, validators: Validators): Promise<CacheWriter> {
    const put = (part: number, bytes: Uint8Array<ArrayBuffer>): Promise<void> =>
      this.#cache.put(this.#url(file, part), new Response(bytes));
    const note = (kept: Omit<Kept, 'validators'>): Promise<void> =>
      this.#cache.put(this.#url(file), new Response(JSON.stringify({ ...kept, validators })));
    return new PartWriter(from, put, note);
  }

  async remove(file: string): Promise<void> {
    const prefix = this.#url(file);
    await this.#cache.delete(prefix);
    for (const { url } of await this.#cache.keys()) {
      if (url.startsWith(`${prefix}/`)) await this.#cache.delete(url);
    }
  }

  #url(file: string, part?: number): string {
    const url = new URL(encodeURIComponent(file), this.#base).href;
    return part === undefined ? url : `${url}/${part}`;
  }
}

/** Collects chunks into parts of one length, so that a part's number is its place. */
class PartWriter implements CacheWriter {
  readonly #put: (part: number, bytes: Uint8Array<ArrayBuffer>) => Promise<void>;
  readonly #note: (kept: Omit<Kept, 'validators'>) => Promise<void>;
  #buffer = new Uint8Array(SAFE_POINT);
  #filled = 0;
  #part: number;

  constructor(
    from: number,
    put: (part: number, bytes: Uint8Array<ArrayBuffer>) => Promise<void>,
    note: (kept: Omit<Kept, 'validators'>) => Promise<void>,
  ) {
    if (from % SAFE_POINT !== 0) throw new Error('not at a part');
    this.#part = from / SAFE_POINT;
    this.#put = put;
    this.#note = note;
  }

  async append(chunk: Uint8Array): Promise<void> {
    for (let rest = chunk; rest.length > 0; ) {
      const taken = rest.subarray(0, SAFE_POINT - this.#filled);
      this.#buffer.set(taken, this.#filled);
      this.#filled += taken.length;
      rest = rest.subarray(taken.length);
      if (this.#filled === SAFE_POINT) {
        await this.#put(this.#part++, this.#buffer);
        this.#filled = 0;
        await this.#note({ bytes: this.#part * SAFE_POINT, complete: false });
      }
    }
  }

  async complete(sha256: string): Promise<void> {
    if (this.#filled > 0) await this.#put(this.#part, this.#buffer.slice(0, this.#filled));
    await this.#note({ bytes: this.#part * SAFE_POINT + this.#filled, complete: true, sha256 });
  }

  async close(): Promise<void> {
    this.#filled = 0;
  }
}
