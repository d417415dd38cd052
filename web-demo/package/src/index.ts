/** Zero-shot text classification in the browser. See the README of this package. */

export type { FoundAdapter } from './adapter.js';
export { clearCache } from './cached.js';
export { Classifier, type ClassifyOptions, type LoadOptions } from './classifier.js';
export { checkCompatibility, type Compatibility } from './compatibility.js';
export { droppedFiles } from './dropped.js';
export { DikastError, type ErrorInfo, type ErrorKind } from './errors.js';
export type {
  Backend,
  Classification,
  Example,
  Labels,
  LabelTree,
  Manifest,
  ModelInfo,
  Progress,
  RemoteSource,
  RequestOptions,
  Score,
  Source,
} from './types.js';
