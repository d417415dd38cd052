/** The origin's private file system: a folder a checkpoint, `NAME` and `NAME.facts` a file. */

import type { Validators } from '../http.js';
import { chunks } from '../streams.js';
import { type CacheWriter, type Kept, type ModelCache, SAFE_POINT, parseKept } from './cache.js';

const ROOT = 'dikast-models';
const LOCK_RETRIES = 5;
const LOCK_PAUSE_MS = 80;

export class OpfsCache implements ModelCache {
  readonly kind = 'opfs';
  readonly #folder: FileSystemDirectoryHandle;

  private constructor(folder: FileSystemDirectoryHandle) {
    this.#folder = folder;
  }

  static async open(key: string): Promise<OpfsCache> {
    const root = await navigator.storage.getDirectory();
    const models = await root.getDirectoryHandle(ROOT, { create: true });
    const folder = await models.getDirectoryHandle(key, { create: true });
    // Some browsers have the folder, but no way to write in it.
    if (!('createSyncAccessHandle' in FileSystemFileHandle.prototype)) throw new Error('no synchronous access');
    return new OpfsCache(folder);
  }

  async find(file: string): Promise<Kept | undefined> {
    const facts = await this.#file(factsName(file));
    const data = await this.#file(file);
    const kept = facts && parseKept(await facts.text());
    return kept && data && data.size >= kept.bytes ? kept : undefined;
  }

  async *read(file: string, kept: Kept): AsyncGenerator<Uint8Array> {
    const data = await this.#file(file);
    if (data) yield* chunks(data.slice(0, kept.bytes).stream());
  }

  async write(file: string, from: number, validators: Validators): Promise<CacheWriter> {
    const handle = await this.#handle(file);
    handle.truncate(from);
    return new OpfsWriter(handle, from, (kept) => this.#note(file, { ...kept, validators }));
  }

  async remove(file: string): Promise<void> {
    // The facts first: bytes without facts are not used.
    for (const name of [factsName(file), file]) await this.#folder.removeEntry(name).catch(() => {});
  }

  async #file(name: string): Promise<File | undefined> {
    try {
      return await (await this.#folder.getFileHandle(name)).getFile();
    } catch {
      return undefined;
    }
  }

  async #handle(name: string): Promise<FileSystemSyncAccessHandle> {
    const file = await this.#folder.getFileHandle(name, { create: true });
    for (let attempt = 0; ; attempt++) {
      try {
        return await file.createSyncAccessHandle();
      } catch (error) {
        // A worker that was just terminated holds its files a moment longer.
        const locked = error instanceof DOMException && error.name === 'NoModificationAllowedError';
        if (!locked || attempt === LOCK_RETRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, LOCK_PAUSE_MS));
      }
    }
  }

  async #note(file: string, kept: Kept): Promise<void> {
    const handle = await this.#handle(factsName(file));
    try {
      const text = new TextEncoder().encode(JSON.stringify(kept));
      handle.truncate(0);
      handle.write(text, { at: 0 });
      handle.flush();
    } finally {
      handle.close();
    }
  }
}

function factsName(file: string): string {
  return `${file}.facts`;
}

class OpfsWriter implements CacheWriter {
  readonly #handle: FileSystemSyncAccessHandle;
  readonly #note: (kept: Omit<Kept, 'validators'>) => Promise<void>;
  #at: number;
  #safe: number;

  constructor(
    handle: FileSystemSyncAccessHandle,
    from: number,
    note: (kept: Omit<Kept, 'validators'>) => Promise<void>,
  ) {
    this.#handle = handle;
    this.#note = note;
    this.#at = from;
    this.#safe = from;
  }

  async append(chunk: Uint8Array): Promise<void> {
    const written = this.#handle.write(chunk, { at: this.#at });
    if (written !== chunk.length) throw new Error('the storage is full');
    this.#at += written;
    if (this.#at - this.#safe >= SAFE_POINT) {
      this.#handle.flush();
      this.#safe = this.#at;
      await this.#note({ bytes: this.#at, complete: false });
    }
  }

  async complete(sha256: string): Promise<void> {
    this.#handle.flush();
    await this.#note({ bytes: this.#at, complete: true, sha256 });
  }

  async close(): Promise<void> {
    this.#handle.close();
  }
}
