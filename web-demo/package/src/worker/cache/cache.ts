/** Files of one checkpoint, kept in the browser. */

import type { Validators } from '../http.js';

/** What is known about a kept file. Written after the bytes, so that it never says too much. */
export interface Kept {
  /** Bytes that are safely stored. */
  bytes: number;
  complete: boolean;
  /** Of the complete file. */
  sha256?: string;
  validators: Validators;
}

/** Bytes between two safe points of an unfinished file. */
export const SAFE_POINT = 16 << 20;

/** A place to keep files. What cannot be kept is fetched again: no failure here is an error of loading. */
export interface ModelCache {
  readonly kind: 'opfs' | 'cache-storage' | 'none';
  find(file: string): Promise<Kept | undefined>;
  read(file: string, kept: Kept): AsyncIterable<Uint8Array>;
  /** Goes on writing after `from` bytes. */
  write(file: string, from: number, validators: Validators): Promise<CacheWriter>;
  remove(file: string): Promise<void>;
}

export interface CacheWriter {
  append(chunk: Uint8Array): Promise<void>;
  complete(sha256: string): Promise<void>;
  /** Lets go of the file; what reached a safe point stays. */
  close(): Promise<void>;
}

/** Facts read back from storage: anything may stand there. */
export function parseKept(text: string): Kept | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null) return undefined;
    const { bytes, complete, validators } = value as Partial<Kept>;
    const usable = Number.isSafeInteger(bytes) && typeof complete === 'boolean' && typeof validators === 'object';
    return usable ? (value as Kept) : undefined;
  } catch {
    return undefined;
  }
}

/** Keeps nothing. */
export const NO_CACHE: ModelCache = {
  kind: 'none',
  find: async () => undefined,
  read: async function* () {},
  write: async () => ({ append: async () => {}, complete: async () => {}, close: async () => {} }),
  remove: async () => {},
};
