/** Messages between the page and the worker. */

import type { ErrorInfo } from './errors.js';
import type { Backend, LoadedModel, Manifest, Progress } from './types.js';

export type CacheChoice = 'auto' | 'opfs' | 'cache-storage' | 'none';

/** What kind of model a checkpoint has to be. */
export type Family = 'classifier' | 'decider';

export type WireSource =
  | { type: 'remote'; base: string; manifest: Manifest | undefined }
  | { type: 'files'; files: readonly File[] };

export interface LoadMessage {
  type: 'load';
  family: Family;
  source: WireSource;
  backend: Backend | 'auto';
  cache: CacheChoice;
}

export type ToWorker = LoadMessage | { type: 'ask'; id: number; request: string; options: string };

export interface WireError {
  info: ErrorInfo;
  message: string;
}

export type FromWorker =
  | { type: 'progress'; progress: Progress }
  | { type: 'loaded'; info: LoadedModel }
  | { type: 'load-failed'; error: WireError }
  | { type: 'answer'; id: number; text: string; engine_ms: number }
  | { type: 'failed'; id: number; error: WireError };
