/** From a source to a model: the order of loading. */

import { DikastError } from '../errors.js';
import type { LoadMessage } from '../protocol.js';
import type { DeciderInfo, LoadedModel, ModelInfo, Progress } from '../types.js';
import initialize, { Loader, type Model } from '../wasm/dikast_web.js';
import { openCache } from './cache/open.js';
import type { Checkpoint } from './checkpoint.js';
import { choose, place } from './choice.js';
import { Intake } from './intake.js';
import { PickedFiles } from './picked.js';
import { Tracker } from './progress.js';
import { RemoteFiles } from './remote.js';

const CONFIG = 'config.json';
const INDEX = 'model.safetensors.index.json';
const SUMS = 'SHA256SUMS';
/** Describes INT8 matrices that do not describe themselves. */
const QUANTIZATION = 'quantization_config.json';

/** Bytes that the module can address, less room for what a forward pass needs. */
const ADDRESSABLE = 2 ** 32 - 2 ** 28;

/** Loads a model. The weights are touched only after everything else about the checkpoint is known to be right. */
export async function load(
  { family, source, backend, cache }: LoadMessage,
  report: (progress: Progress) => void,
): Promise<{ model: Model; info: ModelInfo | DeciderInfo }> {
  const clock = stopwatch();
  const tracker = new Tracker(report);
  tracker.stage('program');
  const choosing = choose(backend);
  // What was asked for by name and is not there ends here; everything else can be found out on the way.
  if (backend === 'webgpu') await choosing;
  const memory = await startProgram();
  const program_ms = clock();

  const name = source.type === 'remote' ? (source.manifest?.name ?? lastPart(source.base)) : folderName(source.files);
  const loader = new Loader(name, family);
  const intake = new Intake(loader, memory);
  const checkpoint: Checkpoint =
    source.type === 'remote'
      ? new RemoteFiles(source.base, source.manifest, await openCache(cache, source.base), intake, tracker)
      : new PickedFiles(source.files, intake, tracker);

  let check_ms = 0;
  const checking = <T>(check: () => T): T => {
    const start = performance.now();
    try {
      return check();
    } finally {
      check_ms += performance.now() - start;
    }
  };

  if (await checkpoint.deliverIfThere(SUMS)) {
    checkpoint.expect(JSON.parse(loader.sums(SUMS)) as Record<string, string>);
    // Every file is compared on its way in; once is enough.
    loader.discard(SUMS);
  }
  await checkpoint.deliver(CONFIG);
  checking(() => loader.checkConfig());
  for (const file of loader.smallFiles()) if (file !== CONFIG) await checkpoint.deliver(file);
  // Whichever family this is, its facts are those of its own info.
  type Architecture = (ModelInfo & DeciderInfo)['architecture'];
  const architecture = checking(() => JSON.parse(loader.check()) as Architecture);
  if (family === 'decider') await checkpoint.deliverIfThere(QUANTIZATION);
  await checkpoint.deliverIfThere(INDEX);
  const weights = loader.weightFiles();
  await checkMemory(checkpoint, weights, tracker);
  for (const file of weights) await checkpoint.deliver(file);
  const files_ms = clock() - check_ms;

  tracker.stage('prepare');
  const uploaded = (done: number, total: number): void => tracker.uploaded(done, total);
  const { model, choice } = await place(loader, await choosing, uploaded);
  const facts = JSON.parse(model.facts()) as Omit<LoadedModel, 'origin' | 'timing' | 'reason'>;
  const timing = { program_ms, files_ms, check_ms, prepare_ms: clock() };
  const where = { backend: choice.backend, reason: choice.reason, device: choice.adapter ?? facts.device };
  return { model, info: { ...facts, ...where, architecture, origin: checkpoint.origin(), timing } };
}

async function startProgram(): Promise<WebAssembly.Memory> {
  try {
    return (await initialize()).memory;
  } catch (error) {
    if (error instanceof TypeError) {
      const url = new URL('../wasm/dikast_web_bg.wasm', import.meta.url).href;
      throw new DikastError({ kind: 'Unreachable', url }, `the engine itself could not be fetched: ${error.message}`);
    }
    throw error;
  }
}

/** Refuses weights that cannot fit before their download begins. */
async function checkMemory(checkpoint: Checkpoint, weights: string[], tracker: Tracker): Promise<void> {
  let needed = 0;
  for (const file of weights) {
    const bytes = (await checkpoint.size(file)) ?? 0;
    tracker.expect(file, bytes);
    needed += bytes;
  }
  const gibibytes = 'deviceMemory' in navigator ? navigator.deviceMemory : undefined;
  // The browser rounds this figure; a machine that says 0.5 has less than 1.
  const machine = typeof gibibytes === 'number' ? gibibytes * 2 ** 31 : Infinity;
  const available = Math.min(ADDRESSABLE, machine);
  if (needed > available) {
    const device = available === ADDRESSABLE ? 'WebAssembly memory' : 'this machine';
    throw new DikastError(
      { kind: 'OutOfMemory', device, needed, available },
      `out of memory on ${device}: ${needed} bytes needed, ${available} available`,
    );
  }
}

function stopwatch(): () => number {
  let last = performance.now();
  return () => {
    const now = performance.now();
    const elapsed = now - last;
    last = now;
    return elapsed;
  };
}

function lastPart(base: string): string {
  return decodeURIComponent(new URL(base).pathname.split('/').filter(Boolean).at(-1) ?? 'model');
}

function folderName(files: readonly File[]): string {
  const [folder, file] = files[0]?.webkitRelativePath.split('/') ?? [];
  return folder && file ? folder : 'dropped model';
}
