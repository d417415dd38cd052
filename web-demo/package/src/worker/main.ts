/** The worker's ends of the wire: messages in, the session's results out. */

import { DikastError, asDikastError } from '../errors.js';
import type { FromWorker, ToWorker, WireError } from '../protocol.js';
import type { Model } from '../wasm/dikast_web.js';
import { load } from './session.js';

declare const self: DedicatedWorkerGlobalScope & { dikastPanic?: string };

let model: Model | undefined;

self.addEventListener('message', ({ data }: MessageEvent<ToWorker>) => {
  void (data.type === 'load' ? onLoad(data) : onAsk(data));
});

async function onLoad(message: Extract<ToWorker, { type: 'load' }>): Promise<void> {
  try {
    const loaded = await load(message, (progress) => post({ type: 'progress', progress }));
    model = loaded.model;
    post({ type: 'loaded', info: loaded.info });
  } catch (error) {
    post({ type: 'load-failed', error: wire(error) });
  }
}

async function onAsk({ id, request, options }: Extract<ToWorker, { type: 'ask' }>): Promise<void> {
  try {
    if (!model) throw new DikastError({ kind: 'Internal' }, 'internal error: a request before the model');
    const start = performance.now();
    const text = await model.answer(request, options);
    post({ type: 'answer', id, text, engine_ms: performance.now() - start });
  } catch (error) {
    post({ type: 'failed', id, error: wire(error) });
  }
}

function post(message: FromWorker): void {
  self.postMessage(message);
}

function wire(thrown: unknown): WireError {
  const { info, message } = thrown instanceof WebAssembly.RuntimeError ? crash(thrown) : asDikastError(thrown);
  return { info, message };
}

/** A trap: the module's state is unknown from here on, so the page starts another worker. */
function crash(trap: WebAssembly.RuntimeError): DikastError {
  const detail = self.dikastPanic ?? trap.message;
  return new DikastError({ kind: 'Crashed', detail }, `the engine stopped: ${detail}`);
}
