/** Typed questions and their answers: the System One objects of the HTTP API, field by field. */

/** Any value that JSON can hold. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** What a description or an instruction may be; anything but a string is read as JSON with sorted keys. */
export type Described = string | readonly Json[] | { readonly [key: string]: Json };

/** Yes or no. The answer is the probability of yes. */
export interface NoulQuestion {
  type: 'noul';
  /** The question; its id where this is absent. */
  instructions?: Described | null;
  /** What yes and no mean; either may be left out. */
  criteria?: { readonly true?: Described | null; readonly false?: Described | null } | null;
}

/** One of several options. */
export interface ChoiceQuestion {
  type: 'choice';
  instructions?: Described | null;
  /** Option → description or null; 1 to 255. */
  criteria: { readonly [option: string]: Described | null };
}

/** A scale. */
export interface ScoreQuestion {
  type: 'score';
  instructions?: Described | null;
  /** Levels, lowest first; 1 to 10. */
  criteria: readonly Described[];
}

export type Question = NoulQuestion | ChoiceQuestion | ScoreQuestion;

/** A picture: a `data:` URL, base64, or base64 with its type. URLs are never fetched. */
export type Picture = string | { content_type: string; base64: string };

/** The body of `POST /v1/systemone`. */
export interface DecideRequest {
  /** Accepted as the HTTP API does; the loaded model answers whatever it says. */
  model?: string;
  /** What the questions are about. */
  state: Described;
  /** Question id → question; 1 to 64. */
  questions: { readonly [id: string]: Question };
  /** At most 4, of PNG, JPEG, WebP or GIF; 4 MiB each, 8 MiB together. */
  images?: readonly Picture[];
  videos?: readonly { frames: readonly Picture[]; fps: number }[];
  /** Pictures by a name that stands in the state or in a question. */
  assets?: { readonly [name: string]: { type: 'image'; format?: string; data_base64: string } };
  /** Cuts a state that is too long at its end instead of refusing it. */
  x_truncate?: 'end';
  /** Other fields are ignored, as the HTTP API ignores them. */
  readonly [field: string]: unknown;
}

export interface NoulAnswer {
  type: 'noul';
  /** Probability of yes. */
  noul: number;
}

export interface ChoiceAnswer {
  type: 'choice';
  /** The most likely option. */
  choice: string;
  confidence: number;
  /** Option → probability. */
  probabilities: Record<string, number>;
}

export interface ScoreAnswer {
  type: 'score';
  /** Mean level, counted from 0. */
  score: number;
  confidence: number;
  /** Level → its description as sent. */
  legend: Record<string, Json>;
  /** Level → probability. */
  probabilities: Record<string, number>;
}

export type Answer = NoulAnswer | ChoiceAnswer | ScoreAnswer;

/** The response of `POST /v1/systemone`. */
export interface Decision {
  model: string;
  /** Question id → answer. */
  answers: Record<string, Answer>;
  usage: { input_tokens: number; output_tokens: number };
  /** These three where `x_truncate` was given. */
  x_truncated?: boolean;
  x_state_tokens?: number;
  x_state_tokens_used?: number;
  /** Where `receipt` was asked for. */
  x_receipt?: {
    model: string;
    checkpoint_digest: string | null;
    backend: string;
    device: string | null;
    quantization: string;
    tokens: number;
    dropped_state_tokens: number;
  };
  /** Added by this package: milliseconds inside the engine, queueing and messages left out. */
  x_timing: { engine_ms: number };
}

/** What the HTTP server has as flags. */
export interface DecideChoices {
  /** What `confidence` means; `typesafe` by default, `max` as in the reference. */
  confidence?: 'typesafe' | 'max' | 'entropy';
  /** Digits after the point; 6 by default, `null` for all. */
  decimals?: number | null;
  /** Adds `x_receipt`. */
  receipt?: boolean;
  /** What `<|im_end|>` and the like mean in a caller's text: text (default), or control tokens as in the reference. */
  special_tokens?: 'data' | 'live';
  /** Accept null, booleans and numbers as the state and as descriptions, as the reference does. */
  allow_scalars?: boolean;
  /** Token limit of the whole sequence; may only lower the model's. */
  max_tokens?: number;
  /** Token limit of the state. */
  max_state_tokens?: number;
}
