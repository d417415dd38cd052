/** Which backend a model goes to, and the way to the CPU when WebGPU turns out not to work. */

import { findAdapter } from '../adapter.js';
import { DikastError, type ErrorKind, asDikastError } from '../errors.js';
import type { Backend } from '../types.js';
import type { Loader, Model } from '../wasm/dikast_web.js';

/** A backend, and why. */
export interface Choice {
  backend: Backend;
  /** Whether the CPU may take over. */
  fixed: boolean;
  /** The WebGPU adapter, when it is used. */
  adapter: string | undefined;
  /** In words, for people. */
  reason: string;
}

/** What the CPU does better than giving up. */
const GPU_TROUBLE: readonly ErrorKind[] = ['NoAdapter', 'Limits', 'OutOfMemory', 'DeviceLost'];

/**
 * `auto` is WebGPU on a hardware adapter, otherwise the CPU.
 *
 * @throws DikastError `NoAdapter` when WebGPU was asked for by name
 */
export async function choose(asked: Backend | 'auto'): Promise<Choice> {
  if (asked === 'cpu') return cpu('asked for', true);
  const found = await findAdapter();
  if (asked === 'webgpu') {
    if (!found.available) throw noAdapter(found.reason);
    return { backend: 'webgpu', fixed: true, adapter: found.adapter, reason: 'asked for' };
  }
  if (!found.available) return cpu(`no WebGPU: ${found.reason}`, false);
  if (found.software) return cpu(`the WebGPU adapter (${found.adapter}) is software`, false);
  return { backend: 'webgpu', fixed: false, adapter: found.adapter, reason: 'a hardware adapter is there' };
}

/** Puts the loader's model onto the chosen backend, or onto the CPU when it may and must. */
export async function place(
  loader: Loader,
  choice: Choice,
  uploaded: (done: number, total: number) => void,
): Promise<{ model: Model; choice: Choice }> {
  if (choice.backend === 'cpu') return { model: await loader.finish('cpu', uploaded), choice };
  try {
    return { model: await loader.finish('webgpu', uploaded), choice };
  } catch (thrown) {
    // The module itself stopped: there is no loader any more.
    if (thrown instanceof WebAssembly.RuntimeError) throw thrown;
    const error = named(asDikastError(thrown), choice.adapter ?? '');
    if (choice.fixed || !GPU_TROUBLE.includes(error.kind)) throw error;
    const fallback = cpu(`WebGPU failed: ${error.message}`, true);
    return { model: await loader.finish('cpu', uploaded), choice: fallback };
  }
}

function cpu(reason: string, fixed: boolean): Choice {
  return { backend: 'cpu', fixed, adapter: undefined, reason };
}

function noAdapter(reason: string): DikastError {
  return new DikastError({ kind: 'NoAdapter', reason }, `no WebGPU adapter: ${reason}`);
}

/** What a WebGPU device lacks, apart from what the engine does not support anywhere. */
function named(error: DikastError, adapter: string): DikastError {
  const { info } = error;
  if (info.kind !== 'Unsupported') return error;
  if (info.device === 'wgpu') return noAdapter(info.need);
  return new DikastError({ kind: 'Limits', device: adapter, need: info.need }, `${adapter} lacks ${info.need}`);
}
