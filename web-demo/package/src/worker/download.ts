/** One file from the network into the loader and the cache, continued where it stopped. */

import { DikastError } from '../errors.js';
import type { CacheWriter, ModelCache } from './cache/cache.js';
import { type Opened, type Validators, open, same } from './http.js';
import type { Intake } from './intake.js';
import type { Tracker } from './progress.js';
import { refuseForeign } from './sniff.js';
import { chunks } from './streams.js';

/** Attempts after the first, each continuing where the one before broke off. */
const RETRIES = 2;
const PAUSE_MS = 400;

export interface Expected {
  bytes: number | undefined;
  sha256: string | undefined;
}

export class Download {
  /** Bytes that came over the network. */
  fetched = 0;

  readonly #url: string;
  readonly #file: string;
  readonly #expected: Expected;
  readonly #cache: ModelCache;
  readonly #intake: Intake;
  readonly #tracker: Tracker;
  /** Bytes in the loader so far, and which version of the file they are from. */
  #at = 0;
  #version: Validators = {};
  #writer: CacheWriter | undefined;

  constructor(
    url: string,
    file: string,
    expected: Expected,
    cache: ModelCache,
    intake: Intake,
    tracker: Tracker,
  ) {
    this.#url = url;
    this.#file = file;
    this.#expected = expected;
    this.#cache = cache;
    this.#intake = intake;
    this.#tracker = tracker;
  }

  /** The file's SHA-256. */
  async run(): Promise<string> {
    this.#tracker.stage('fetch', this.#file);
    const continued = await this.#takeUpPartial();
    try {
      const sum = await this.#whole();
      if (!continued || this.#expected.sha256 === undefined || sum === this.#expected.sha256) return sum;
    } finally {
      await this.#letGo();
    }
    // The part that was kept was not from this file.
    this.#intake.discard(this.#file);
    await this.#cache.remove(this.#file);
    this.#at = 0;
    this.#version = {};
    try {
      return await this.#whole();
    } finally {
      await this.#letGo();
    }
  }

  /** Gives the loader what an earlier attempt left in the cache. */
  async #takeUpPartial(): Promise<boolean> {
    const kept = await this.#cache.find(this.#file);
    if (!kept || kept.complete || kept.bytes === 0) return false;
    const total = kept.validators.length ?? 0;
    this.#intake.begin(this.#file, total);
    this.#tracker.expect(this.#file, total);
    this.#version = kept.validators;
    for await (const chunk of this.#cache.read(this.#file, kept)) {
      this.#intake.write(chunk);
      this.#at += chunk.length;
      this.#tracker.at(this.#file, this.#at);
    }
    return true;
  }

  async #whole(): Promise<string> {
    for (let attempt = 0; ; attempt++) {
      const before = this.#at;
      try {
        await this.#receive();
        break;
      } catch (error) {
        const broken = error instanceof DikastError && error.kind === 'Truncated';
        if (!broken || attempt >= RETRIES || (attempt > 0 && this.#at === before)) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * (attempt + 1)));
      }
    }
    const { bytes, sha256 } = this.#expected;
    if (bytes !== undefined && this.#at < bytes) throw this.#truncated(bytes);
    const sum = await this.#intake.end();
    // A wrong file is not worth keeping.
    if (sha256 === undefined || sum === sha256) await this.#writer?.complete(sum);
    else await this.#cache.remove(this.#file);
    return sum;
  }

  /** Everything from where the loader is to the end of the file. */
  async #receive(): Promise<void> {
    let opened = await open(this.#url, this.#at);
    if (this.#at > 0 && !same(opened.validators, this.#version)) {
      await opened.body.cancel();
      opened = await open(this.#url, 0);
    }
    if (opened.start === 0) await this.#restart(opened);
    this.#writer ??= await this.#cache.write(this.#file, this.#at, this.#version);
    try {
      for await (const chunk of chunks(opened.body)) {
        if (this.#at === 0) refuseForeign(chunk, this.#url);
        this.#intake.write(chunk);
        this.#at += chunk.length;
        this.fetched += chunk.length;
        this.#tracker.at(this.#file, this.#at);
        await this.#writer.append(chunk);
      }
    } catch (error) {
      // How a connection that broke off looks to a script.
      if (error instanceof TypeError) throw this.#truncated(opened.total);
      throw error;
    }
    if (opened.total !== undefined && this.#at < opened.total) throw this.#truncated(opened.total);
  }

  async #restart(opened: Opened): Promise<void> {
    await this.#letGo();
    this.#at = 0;
    this.#version = opened.validators;
    const total = opened.total ?? this.#expected.bytes ?? 0;
    this.#tracker.expect(this.#file, total);
    this.#intake.begin(this.#file, total);
  }

  async #letGo(): Promise<void> {
    await this.#writer?.close();
    this.#writer = undefined;
  }

  #truncated(total: number | undefined): DikastError {
    const expected = total ?? this.#expected.bytes ?? 0;
    return new DikastError(
      { kind: 'Truncated', place: this.#url, expected, actual: this.#at },
      `${this.#url}: ends after ${this.#at} of ${expected === 0 ? 'an unknown number of' : expected} bytes`,
    );
  }
}
