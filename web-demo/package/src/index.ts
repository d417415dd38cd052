/** Zero-shot classification and typed questions in the browser. See the README of this package. */

export type { FoundAdapter } from './adapter.js';
export { clearCache } from './cached.js';
export { Classifier, type ClassifyOptions } from './classifier.js';
export { checkCompatibility, type Compatibility } from './compatibility.js';
export { Decider, type DecideOptions } from './decider.js';
export type {
  Answer,
  ChoiceAnswer,
  ChoiceQuestion,
  DecideChoices,
  DecideRequest,
  Decision,
  Described,
  Json,
  NoulAnswer,
  NoulQuestion,
  Picture,
  Question,
  ScoreAnswer,
  ScoreQuestion,
} from './decisions.js';
export { droppedFiles } from './dropped.js';
export type { LoadOptions } from './engine.js';
export { DikastError, type ErrorInfo, type ErrorKind } from './errors.js';
export type {
  Backend,
  Classification,
  DeciderInfo,
  Example,
  Labels,
  LabelTree,
  LoadedModel,
  Manifest,
  ModelInfo,
  Progress,
  RemoteSource,
  RequestOptions,
  Score,
  Source,
} from './types.js';
