/** Bytes done and bytes in all, reported at a bearable rate. */

import type { Progress } from '../types.js';

const INTERVAL_MS = 40;

export class Tracker {
  readonly #report: (progress: Progress) => void;
  readonly #files = new Map<string, { done: number; total: number }>();
  #stage: Progress['stage'] = 'program';
  #file = '';
  #last = -Infinity;

  constructor(report: (progress: Progress) => void) {
    this.#report = report;
  }

  /** Another kind of work begins. */
  stage(stage: Progress['stage'], file = ''): void {
    this.#stage = stage;
    this.#file = file;
    this.#send(true);
  }

  /** A file's size, as soon as it is known. */
  expect(file: string, total: number): void {
    const known = this.#files.get(file);
    if (known) known.total = Math.max(total, known.done);
    else this.#files.set(file, { done: 0, total });
  }

  /** Bytes of a file that have arrived. */
  at(file: string, done: number): void {
    const known = this.#files.get(file) ?? { done: 0, total: 0 };
    known.done = done;
    known.total = Math.max(known.total, done);
    this.#files.set(file, known);
    this.#send(false);
  }

  /** Bytes that the device has. */
  uploaded(done: number, total: number): void {
    const first = this.#stage !== 'upload';
    this.#stage = 'upload';
    this.#file = '';
    if (this.#due(first || done === total)) this.#report({ stage: 'upload', file: '', done, total });
  }

  #due(now: boolean): boolean {
    const time = performance.now();
    if (!now && time - this.#last < INTERVAL_MS) return false;
    this.#last = time;
    return true;
  }

  #send(now: boolean): void {
    if (!this.#due(now)) return;
    let done = 0;
    let total = 0;
    for (const file of this.#files.values()) {
      done += file.done;
      total += file.total;
    }
    this.#report({ stage: this.#stage, file: this.#file, done, total });
  }
}
