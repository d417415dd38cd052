/** Messages between the page and the worker. */

import type { ErrorInfo } from './errors.js';
import type { Backend, Classification, Manifest, ModelInfo, Progress } from './types.js';

export type CacheChoice = 'auto' | 'opfs' | 'cache-storage' | 'none';

export type WireSource =
  | { type: 'remote'; base: string; manifest: Manifest | undefined }
  | { type: 'files'; files: readonly File[] };

export interface LoadMessage {
  type: 'load';
  source: WireSource;
  backend: Backend | 'auto';
  cache: CacheChoice;
}

export type ToWorker = LoadMessage | { type: 'classify'; id: number; request: string };

export interface WireError {
  info: ErrorInfo;
  message: string;
}

export type FromWorker =
  | { type: 'progress'; progress: Progress }
  | { type: 'loaded'; info: ModelInfo }
  | { type: 'load-failed'; error: WireError }
  | { type: 'answer'; id: number; answer: Classification }
  | { type: 'failed'; id: number; error: WireError };
