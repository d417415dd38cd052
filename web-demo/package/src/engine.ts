/** A model in a worker: loading, the queue of requests, the way back after a crash. */

import { missingNeeds, unsupportedBrowser } from './compatibility.js';
import { DikastError, asDikastError, cancelled } from './errors.js';
import type { CacheChoice, Family, FromWorker, ToWorker, WireError, WireSource } from './protocol.js';
import type { Backend, LoadedModel, Progress, Source } from './types.js';

export interface LoadOptions {
  /** Called often; never after the promise settled. */
  progress?: (progress: Progress) => void;
  /** Cancels loading; what was downloaded so far is kept and continued by the next attempt. */
  signal?: AbortSignal;
  /** `auto` (default): WebGPU where it is there and worth it, otherwise the CPU. */
  backend?: Backend | 'auto';
  /** Where to keep the files; `auto` by default. */
  cache?: CacheChoice;
}

/** What the engine wrote, and how long it took. */
export interface Written {
  text: string;
  engine_ms: number;
}

interface Job {
  id: number;
  request: string;
  options: string;
  resolve: (answer: Written) => void;
  reject: (error: DikastError) => void;
}

/** A model of one family, ready to answer. */
export class Engine<Info extends LoadedModel> {
  readonly #family: Family;
  readonly #options: LoadOptions;
  readonly #source: WireSource;
  #worker: Promise<Worker> | undefined;
  #info!: Info;
  #disposed = false;
  #queue: Job[] = [];
  #running: Job | undefined;
  #nextId = 1;

  private constructor(family: Family, source: WireSource, options: LoadOptions) {
    this.#family = family;
    this.#source = source;
    this.#options = options;
  }

  /**
   * Loads a model: checks the browser, fetches the small files and checks them, then the weights.
   *
   * @throws DikastError
   */
  static async load<Info extends LoadedModel>(
    family: Family,
    source: Source,
    options: LoadOptions,
  ): Promise<Engine<Info>> {
    const { signal } = options;
    const missing = missingNeeds();
    if (missing.length > 0) throw unsupportedBrowser(missing);
    if (signal?.aborted) throw cancelled();
    const engine = new Engine<Info>(family, wireSource(source), options);
    await engine.#start(options.progress, signal);
    return engine;
  }

  /** What was loaded and where it runs. */
  get info(): Info {
    return this.#info;
  }

  /**
   * Asks in the family's JSON; `options` is JSON that stands beside the request. Requests are answered one after the
   * other, in order.
   *
   * @throws DikastError
   */
  ask(request: string, options: string, signal: AbortSignal | undefined): Promise<Written> {
    if (this.#disposed || signal?.aborted) return Promise.reject(cancelled());
    return new Promise((resolve, reject) => {
      const job: Job = { id: this.#nextId++, request, options, resolve, reject };
      signal?.addEventListener('abort', () => this.#giveUp(job), { once: true });
      this.#queue.push(job);
      this.#next();
    });
  }

  /** Gives up every request that has no answer yet. */
  cancel(): void {
    const waiting = this.#queue.splice(0);
    if (this.#running) waiting.push(this.#running);
    for (const job of waiting) job.reject(cancelled());
  }

  /** Gives everything back: requests are cancelled, the worker and its memory go. */
  dispose(): void {
    this.#disposed = true;
    this.cancel();
    this.#worker?.then((worker) => worker.terminate()).catch(() => {});
    this.#worker = undefined;
  }

  #giveUp(job: Job): void {
    this.#queue = this.#queue.filter((other) => other !== job);
    job.reject(cancelled());
  }

  #next(): void {
    if (this.#running || this.#disposed) return;
    const job = this.#queue.shift();
    if (!job) return;
    this.#running = job;
    // After a crash there is no worker: the request that comes next brings the model back, from the cache.
    (this.#worker ?? this.#start(undefined, undefined)).then(
      (worker) => {
        const { id, request, options } = job;
        worker.postMessage({ type: 'ask', id, request, options } satisfies ToWorker);
      },
      (error: unknown) => this.#settle(job.id, (running) => running.reject(asDikastError(error))),
    );
  }

  #settle(id: number, how: (job: Job) => void): void {
    const job = this.#running;
    if (job?.id !== id) return;
    this.#running = undefined;
    how(job);
    this.#next();
  }

  #start(progress: LoadOptions['progress'], signal: AbortSignal | undefined): Promise<Worker> {
    const starting = this.#spawn(progress, signal);
    this.#worker = starting;
    starting.catch(() => {
      if (this.#worker === starting) this.#worker = undefined;
    });
    return starting;
  }

  #spawn(progress: LoadOptions['progress'], signal: AbortSignal | undefined): Promise<Worker> {
    return new Promise((resolve, reject) => {
      const worker = new Worker(new URL('./worker/main.js', import.meta.url), { type: 'module', name: 'dikast' });
      const fail = (error: DikastError): void => {
        worker.terminate();
        reject(error);
      };
      const abort = (): void => fail(cancelled());
      signal?.addEventListener('abort', abort, { once: true });
      worker.addEventListener('error', (event) => {
        // A script that did not load has no message.
        const detail = event.message || 'the worker did not start';
        const error = new DikastError({ kind: 'Crashed', detail }, `the engine stopped: ${detail}`);
        fail(error);
        this.#crashed(error);
      });
      worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
        switch (data.type) {
          case 'progress':
            if (!signal?.aborted) progress?.(data.progress);
            break;
          case 'loaded':
            signal?.removeEventListener('abort', abort);
            this.#info = data.info as Info;
            if (this.#disposed) worker.terminate();
            resolve(worker);
            break;
          case 'load-failed':
            signal?.removeEventListener('abort', abort);
            fail(revived(data.error));
            break;
          case 'answer':
            this.#settle(data.id, (job) => job.resolve(data));
            break;
          case 'failed': {
            const error = revived(data.error);
            if (error.kind === 'Crashed') {
              worker.terminate();
              this.#worker = undefined;
            }
            this.#settle(data.id, (job) => job.reject(error));
            break;
          }
        }
      });
      worker.postMessage({
        type: 'load',
        family: this.#family,
        source: this.#source,
        backend: this.#options.backend ?? 'auto',
        cache: this.#options.cache ?? 'auto',
      } satisfies ToWorker);
    });
  }

  #crashed(error: DikastError): void {
    this.#worker = undefined;
    if (this.#running) this.#settle(this.#running.id, (job) => job.reject(error));
  }
}

function revived({ info, message }: WireError): DikastError {
  return new DikastError(info, message);
}

function wireSource(source: Source): WireSource {
  if (typeof source === 'string' || source instanceof URL) return remote(source, undefined);
  if ('base' in source) return remote(source.base, source.manifest);
  return { type: 'files', files: [...source] };
}

function remote(base: string | URL, manifest: Extract<WireSource, { type: 'remote' }>['manifest']): WireSource {
  let url: URL;
  try {
    url = new URL(base, document.baseURI);
  } catch {
    throw new DikastError(
      { kind: 'InvalidRequest', field: 'source', detail: 'not an address' },
      `invalid request: source: ${JSON.stringify(String(base))} is not an address`,
    );
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new DikastError(
      { kind: 'InvalidRequest', field: 'source', detail: 'not an http address' },
      `invalid request: source: ${url.protocol} found, http: or https: is allowed`,
    );
  }
  // A folder: whatever is joined to it comes below it.
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return { type: 'remote', base: url.href, manifest };
}
