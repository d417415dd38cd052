/** Requests and answers: the JSON of the engine, field by field. */

/** Labels in a list, or a hierarchy of maps whose leaves are lists or single labels. */
export type Labels = readonly string[] | LabelTree;
export interface LabelTree {
  readonly [level: string]: LabelTree | readonly string[] | string;
}

/** A solved example shown to the model. */
export interface Example {
  text: string;
  labels: readonly string[];
}

/** Everything of a request beside the text and the labels. Unknown fields are refused by name. */
export interface RequestOptions {
  /** `true` (default): each label on its own. `false`: exactly one label is right. */
  multi_label?: boolean;
  /** Multi-label only: labels with a score of at least this are predictions. 0.5 by default. */
  threshold?: number;
  /** A task description, glued before the text. */
  prompt?: string;
  examples?: readonly Example[];
  /** What to do with input over the token limit: refuse (default), drop the text's end, cut the whole prompt. */
  truncation?: 'refuse' | 'text' | 'right';
  /** Token limit of the rendered prompt; the engine's is 1024. */
  max_tokens?: number;
  /** Split long texts and long label lists. */
  chunking?: { text_chars?: number; overlap_chars?: number; labels?: number };
  /** What joins the levels of a hierarchy; `.` by default. */
  label_separator?: string;
  /** Score the same label at each of its places instead of refusing it. */
  allow_duplicate_labels?: boolean;
  /** Accept marker text such as `<<LABEL>>` inside labels and texts. */
  allow_markers?: boolean;
}

export interface Score {
  label: string;
  /** Probability in 0..1. */
  score: number;
  /** The logit behind it; absent when the text was split. */
  logit?: number;
}

/** The answer to one request. */
export interface Classification {
  mode: 'single-label' | 'multi-label';
  threshold: number;
  /** The labels chosen. */
  predictions: { label: string; score: number }[];
  /** Every label, in request order. */
  scores: Score[];
  receipt: {
    model: string;
    checkpoint_digest: string | null;
    backend: string;
    quantization: string;
    tokens: number;
    dropped_text_tokens: number;
  };
  /** Added by this package: milliseconds inside the engine, queueing and messages left out. */
  timing: { engine_ms: number };
}

/** Where a model runs. */
export type Backend = 'cpu' | 'webgpu';

/** SHA-256 and length of every file of a checkpoint. */
export interface Manifest {
  /** The model's name; the last part of its address by default. */
  name?: string;
  files: Readonly<Record<string, { bytes: number; sha256: string }>>;
}

/** A checkpoint folder on a server, relative to the page or absolute. */
export interface RemoteSource {
  base: string | URL;
  /** Known sums; without it `SHA256SUMS` of the folder is used where there is one. */
  manifest?: Manifest;
}

/** An address, an address with a manifest, or files that the user dropped or picked. */
export type Source = string | URL | RemoteSource | readonly File[];

/** How far loading is. */
export interface Progress {
  /**
   * `program`: the engine itself. `fetch`: from the network. `cache`: from this browser. `prepare`: into the form that
   * answers. `upload`: onto the graphics device, with its own count of bytes.
   */
  stage: 'program' | 'fetch' | 'cache' | 'prepare' | 'upload';
  /** The file at hand; empty between files. */
  file: string;
  /** Bytes done, over all files. */
  done: number;
  /** Bytes in all, as far as known; 0 when unknown. */
  total: number;
}

/** What was loaded and where it runs. */
export interface LoadedModel {
  name: string;
  /** How the large projections are stored, for example `BF16`. */
  format: string;
  weight_bytes: number;
  /** Steps of the forward pass. */
  steps: number;
  /** Token limit of a request that states none. */
  max_tokens: number;
  backend: Backend;
  /** Why it runs there, in words: `asked for`, or what `auto` found. */
  reason: string;
  /** The processor, or the WebGPU adapter. */
  device: string;
  /** Features and limits of the device, for people. */
  details: Record<string, string>;
  memory: { device_weights: number; host_tables: number; activations: number };
  /** Where the bytes came from and where they are kept. */
  origin: {
    from: 'network' | 'cache' | 'files' | 'mixed';
    cached: 'opfs' | 'cache-storage' | 'none';
    /** Files that were in the cache, but damaged, and were fetched again. */
    repaired: string[];
    fetched_bytes: number;
    verified: boolean;
  };
  /** Milliseconds of loading by stage. */
  timing: { program_ms: number; files_ms: number; check_ms: number; prepare_ms: number };
}

/** What a `Classifier` has loaded. */
export interface ModelInfo extends LoadedModel {
  architecture: {
    layers: number;
    width: number;
    heads: number;
    vocabulary: number;
    scorer: string;
    max_labels: number | null;
  };
}

/** What a `Decider` has loaded. */
export interface DeciderInfo extends LoadedModel {
  architecture: {
    layers: number;
    /** How many of the layers are full attention; the others are Gated DeltaNet. */
    full_attention_layers: number;
    width: number;
    heads: number;
    vocabulary: number;
    vision_layers: number;
    head_width: number;
  };
}
