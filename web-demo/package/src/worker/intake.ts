/** Files on their way into the module, with their sums. */

import type { Loader } from '../wasm/dikast_web.js';

/**
 * The browser's own SHA-256 is much faster than one in the module and leaves this thread free, but it copies the file.
 * Larger files are summed on the way in.
 */
const LARGEST_COPY = 256 << 20;

export class Intake {
  readonly #loader: Loader;
  readonly #memory: WebAssembly.Memory;
  #file = '';

  constructor(loader: Loader, memory: WebAssembly.Memory) {
    this.#loader = loader;
    this.#memory = memory;
  }

  /** Starts a file of `expected` bytes, or of 0 when that is not known. */
  begin(file: string, expected: number): void {
    this.#file = file;
    this.#loader.begin(file, expected, expected === 0 || expected > LARGEST_COPY);
  }

  write(chunk: Uint8Array): void {
    this.#loader.write(chunk);
  }

  /** Ends the file; its SHA-256. */
  async end(): Promise<string> {
    const sum = this.#loader.end();
    if (sum !== undefined) return sum;
    const [address, length] = this.#loader.place(this.#file);
    const bytes = new Uint8Array(this.#memory.buffer as ArrayBuffer, address, length);
    return hex(await crypto.subtle.digest('SHA-256', bytes));
  }

  /** Forgets a file. */
  discard(file: string): void {
    this.#loader.discard(file);
  }
}

/** Bytes as hexadecimal digits. */
export function hex(bytes: ArrayBuffer): string {
  return [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
