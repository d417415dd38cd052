/** What is loaded, where it runs, and what this browser can do. */

import type { Compatibility, DeciderInfo, LoadedModel, ModelInfo } from 'dikast-web';

import { element, make } from './dom.ts';
import { bytes, count, milliseconds } from './format.ts';

type Facts = [name: string, value: string][];

/** What the engine asks an adapter for; a browser lists many more. */
const GPU_FEATURES = ['shader-f16', 'subgroups', 'timestamp-query'];

export function showModel({ architecture: shape, ...info }: ModelInfo): void {
  const labels = shape.max_labels === null ? '' : `, ${count(shape.max_labels)} labels`;
  const heads = `${shape.heads} heads, ${shape.scorer} scorer`;
  show(info, `${shape.layers} layers, width ${count(shape.width)}, ${heads}`, shape.vocabulary, labels);
}

export function showDecider({ architecture: shape, ...info }: DeciderInfo): void {
  const layers = `${shape.layers} layers, ${shape.full_attention_layers} of them full attention`;
  show(info, `${layers}, width ${count(shape.width)}; ${shape.vision_layers} for pictures`, shape.vocabulary, '');
}

function show(info: LoadedModel, shape: string, vocabulary: number, limits: string): void {
  const { origin, timing } = info;
  const kept = { opfs: 'kept in this browser', 'cache-storage': 'kept in this browser', none: 'not kept' }[origin.cached];
  const from = {
    network: `downloaded (${bytes(origin.fetched_bytes)}), ${kept}`,
    cache: 'kept in this browser from an earlier visit',
    mixed: `partly kept, ${bytes(origin.fetched_bytes)} downloaded`,
    files: 'your folder',
  }[origin.from];
  const facts: Facts = [
    ['Name', info.name],
    ['Shape', shape],
    ['Weights', `${bytes(info.weight_bytes)}, ${info.format}`],
    ['Vocabulary', `${count(vocabulary)} tokens`],
    ['Limit', `${count(info.max_tokens)} tokens${limits}`],
    ['From', from],
    ['Checked', origin.verified ? 'SHA-256 of every file' : 'structure and values; no sums were published'],
    ['Runs on', info.backend === 'cpu' ? 'CPU, WebAssembly with SIMD' : `GPU, ${info.device}, by WebGPU`],
    ['Because', info.reason],
    ['Loaded in', milliseconds(timing.program_ms + timing.files_ms + timing.check_ms + timing.prepare_ms)],
  ];
  if (origin.repaired.length > 0) facts.push(['Repaired', `${origin.repaired.join(', ')}: damaged here, fetched again`]);
  fill('facts', [...facts, ...Object.entries(info.details).flatMap(detail)]);
  element('where-backend', HTMLSpanElement).textContent =
    info.backend === 'cpu'
      ? 'here on the CPU, with 128-bit vectors.'
      : `here on the graphics device (${info.device}), by WebGPU.`;
}

export function showBrowser(found: Compatibility): void {
  const gpu = found.webgpu;
  fill('browser', [
    ['WebGPU', gpu.available ? gpu.adapter + (gpu.software ? ' (software)' : '') : gpu.reason],
    ...(gpu.available ? ([['GPU features', gpu.features.filter((name) => GPU_FEATURES.includes(name)).join(', ') || 'none']] satisfies Facts) : []),
    ['SIMD', found.webAssemblySimd ? '128 bit' : 'none'],
    ['Storage', { opfs: 'private file system', 'cache-storage': 'Cache Storage', none: 'memory only' }[found.cache]],
    ...(found.freeStorage === undefined ? [] : ([['Free storage', bytes(found.freeStorage)]] satisfies Facts)),
  ]);
}

/** A device's own word on itself: sizes in larger units, nothing where it says nothing. */
function detail([name, value]: [string, string]): Facts {
  if (value === '') return [];
  return name.endsWith(' bytes') ? [[name.slice(0, -' bytes'.length), bytes(Number(value))]] : [[name, value]];
}

function fill(id: string, facts: Facts): void {
  const rows = facts.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value)));
  document.getElementById(id)?.replaceChildren(...rows);
}
