/** What this browser can do, found out before anything is downloaded. */

import { type FoundAdapter, findAdapter } from './adapter.js';
import { DikastError } from './errors.js';

export interface Compatibility {
  /** The engine runs here at all. */
  ok: boolean;
  /** What is missing, in words; empty when `ok`. */
  missing: string[];
  webAssemblySimd: boolean;
  /** The WebGPU adapter, or why there is none. */
  webgpu: FoundAdapter;
  /** Where a model can be kept. */
  cache: 'opfs' | 'cache-storage' | 'none';
  /** Bytes that this origin may still store; `undefined` when the browser does not say. */
  freeStorage: number | undefined;
  /** Bytes of memory of this machine, a coarse upper bound by the browser; `undefined` when it does not say. */
  memory: number | undefined;
}

/** Looks at this browser. Downloads nothing, never throws. */
export async function checkCompatibility(): Promise<Compatibility> {
  const missing = missingNeeds();
  return {
    ok: missing.length === 0,
    missing,
    webAssemblySimd: hasSimd(),
    webgpu: await findAdapter(),
    cache: cacheKind(),
    freeStorage: await freeStorage(),
    memory: memory(),
  };
}

/** What the engine cannot do without and this browser lacks. Takes no time. */
export function missingNeeds(): string[] {
  const missing: string[] = [];
  if (typeof WebAssembly !== 'object') missing.push('WebAssembly');
  else if (!hasSimd()) missing.push('WebAssembly SIMD');
  if (typeof Worker !== 'function') missing.push('Web Workers');
  return missing;
}

/** The engine's needs as an error. */
export function unsupportedBrowser(missing: readonly string[]): DikastError {
  const need = missing.join(' and ');
  return new DikastError(
    { kind: 'Unsupported', device: 'this browser', need },
    `unsupported on this browser: ${need}`,
  );
}

/** A module that counts the bits of a vector of zeros: valid where 128-bit SIMD is. */
const SIMD_MODULE = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

function hasSimd(): boolean {
  return typeof WebAssembly === 'object' && WebAssembly.validate(SIMD_MODULE);
}

function cacheKind(): Compatibility['cache'] {
  if ('storage' in navigator && 'getDirectory' in navigator.storage) return 'opfs';
  return 'caches' in globalThis ? 'cache-storage' : 'none';
}

async function freeStorage(): Promise<number | undefined> {
  try {
    const { quota, usage } = await navigator.storage.estimate();
    return quota === undefined ? undefined : quota - (usage ?? 0);
  } catch {
    return undefined;
  }
}

function memory(): number | undefined {
  const gibibytes = 'deviceMemory' in navigator ? navigator.deviceMemory : undefined;
  return typeof gibibytes === 'number' ? gibibytes * 2 ** 30 : undefined;
}
