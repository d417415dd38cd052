/** A checkpoint folder, wherever it is. */

import { DikastError } from '../errors.js';
import type { LoadedModel } from '../types.js';

/** Delivers files into the loader, each checked against its sum where one is known. */
export interface Checkpoint {
  /** Delivers a file that the model needs. */
  deliver(file: string): Promise<void>;
  /** Delivers a file that some checkpoints have; whether it was there. */
  deliverIfThere(file: string): Promise<boolean>;
  /** Bytes of a file, if that can be known without reading it. */
  size(file: string): Promise<number | undefined>;
  /** Sums by file name, from the checkpoint itself. */
  expect(sums: Readonly<Record<string, string>>): void;
  origin(): LoadedModel['origin'];
}

/** The sums that are known, and those that were found. */
export class Sums {
  readonly #expected = new Map<string, string>();
  readonly #found = new Map<string, string>();

  expect(sums: Readonly<Record<string, string>>): void {
    for (const [file, sum] of Object.entries(sums)) this.#expected.set(file, sum);
  }

  expected(file: string): string | undefined {
    return this.#expected.get(file);
  }

  found(file: string, sum: string): void {
    this.#found.set(file, sum);
  }

  /** Whether every file delivered had a sum to compare with. */
  get complete(): boolean {
    // The list of sums has none itself.
    return [...this.#found.keys()].every((file) => file === 'SHA256SUMS' || this.#expected.has(file));
  }

  /** @throws DikastError `WrongSum` */
  verify(file: string, place: string): void {
    const [expected, actual] = [this.#expected.get(file), this.#found.get(file)];
    if (expected !== undefined && actual !== undefined && expected !== actual) {
      throw new DikastError(
        { kind: 'WrongSum', place, expected, actual },
        `${place}: SHA-256 is ${actual}, ${expected} expected`,
      );
    }
  }
}
