/** Everything that can go wrong, as one error type with a `kind`. */

/** What went wrong: the core's errors under their own names, then those of the network, the cache and the worker. */
export type ErrorInfo =
  /** The request is not allowed; `field` is its path, for example `labels[3]`. */
  | { kind: 'InvalidRequest'; field: string; detail: string }
  /** The request is over a limit. */
  | { kind: 'TooLarge'; what: string; limit: number; actual: number }
  /** A checkpoint file is damaged, incomplete or not what its configuration says. */
  | { kind: 'Checkpoint'; item: string; detail: string }
  /** This program, browser or device cannot do it. */
  | { kind: 'Unsupported'; device: string; need: string }
  /** WebGPU was asked for and is not there. */
  | { kind: 'NoAdapter'; reason: string }
  /** The WebGPU adapter has too little of something for this model. */
  | { kind: 'Limits'; device: string; need: string }
  /** `available` is 0 where the device does not tell, as WebGPU never does. */
  | { kind: 'OutOfMemory'; device: string; needed: number; available: number }
  /** The device went away, and again after it was opened anew; the next request tries once more. */
  | { kind: 'DeviceLost'; device: string; detail: string }
  /** A dropped or picked file could not be read. */
  | { kind: 'Io'; path: string; detail: string }
  /** A fault of this program. */
  | { kind: 'Internal' }
  /** Nothing answered at the address: no connection, no such host, or no permission for this page (CORS). */
  | { kind: 'Unreachable'; url: string }
  /** The server answered with a status other than success. */
  | { kind: 'HttpStatus'; url: string; status: number }
  /** The address or folder holds something else: a web page, a pointer file. */
  | { kind: 'NotACheckpoint'; place: string; found: string }
  /** A file ended early. */
  | { kind: 'Truncated'; place: string; expected: number; actual: number }
  /** A file's SHA-256 is not the one that its manifest says. */
  | { kind: 'WrongSum'; place: string; expected: string; actual: string }
  /** Cancelled or disposed by the caller. */
  | { kind: 'Cancelled' }
  /** The WebAssembly module stopped; the next request starts it anew. */
  | { kind: 'Crashed'; detail: string };

export type ErrorKind = ErrorInfo['kind'];

/** The only error that this package throws. */
export class DikastError extends Error {
  override readonly name = 'DikastError';

  constructor(
    /** The kind with its facts. */
    readonly info: ErrorInfo,
    message: string,
  ) {
    super(message);
  }

  /** What went wrong, for `switch`. */
  get kind(): ErrorKind {
    return this.info.kind;
  }
}

/** Cancelled by the caller. */
export function cancelled(): DikastError {
  return new DikastError({ kind: 'Cancelled' }, 'cancelled');
}

/** Any thrown value as a {@link DikastError}. */
export function asDikastError(thrown: unknown): DikastError {
  if (thrown instanceof DikastError) return thrown;
  if (isCoreError(thrown)) {
    const { message, ...info } = thrown;
    return new DikastError(info as ErrorInfo, message);
  }
  if (thrown instanceof Error && thrown.name === 'AbortError') return cancelled();
  return new DikastError({ kind: 'Internal' }, `internal error: ${String(thrown)}`);
}

/** What the WebAssembly module throws: `{kind, message, …}`. */
function isCoreError(thrown: unknown): thrown is { kind: ErrorKind; message: string } {
  return (
    typeof thrown === 'object' &&
    thrown !== null &&
    !(thrown instanceof Error) &&
    'kind' in thrown &&
    'message' in thrown &&
    typeof thrown.message === 'string'
  );
}
