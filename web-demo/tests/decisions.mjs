/** Records of typed questions with the answers of the reference: of the built-in model and of the tiny fixture. */

import { readFileSync } from 'node:fs';

import { png } from './png.mjs';

const MINI = new URL('../../models/clef-mini/', import.meta.url);
const TINY = new URL('../../tests/data/clef-tiny/', import.meta.url);

/** The built-in model is INT8, its expected values are those of its BF16 weights: largest difference of a probability. */
export const MINI_TOLERANCE = 0.03;
/** The fixture is not quantized. */
export const TINY_TOLERANCE = 1e-4;

const LINES = readFileSync(new URL('eval.jsonl', MINI), 'utf8').trim().split('\n');
const MINI_EXPECTED = JSON.parse(readFileSync(new URL('expected.json', MINI), 'utf8'));

/** `{body, expected}` of a record of the built-in model. */
export function mini(id) {
  const line = LINES.find((line) => JSON.parse(line).id === id);
  const pictures = (JSON.parse(line).image_files ?? []).map((file) => dataUrl(new URL(`eval_images/${file}`, MINI)));
  return { body: extended(line, { images: pictures }), expected: MINI_EXPECTED.find((record) => record.id === id) };
}

/** A picture of the built-in model's examples, as a file. */
export function picture(name) {
  return { name, mimeType: 'image/png', buffer: readFileSync(new URL(`eval_images/${name}`, MINI)) };
}

/** The fixture's processor settings, but for one: its records show the model every frame of a clip. */
export const EVERY_FRAME = JSON.stringify(
  JSON.parse(readFileSync(new URL('model/processor_config.json', TINY), 'utf8')),
  (key, value) => (key === 'do_sample_frames' ? false : value),
);

/** `{id, body, options, expected}` of every record of the tiny fixture, under its own limits and in the reference's reading. */
export function tiny() {
  const expected = JSON.parse(readFileSync(new URL('golden/expected.json', TINY), 'utf8'));
  // As text: numbers such as 1.0 and 90071992547409931 are part of what is tested.
  return items(readFileSync(new URL('golden/records.json', TINY), 'utf8')).map((text, i) => {
    const { id, limits = {}, image_files = [], video_files = [] } = JSON.parse(text);
    const options = { special_tokens: 'live', allow_scalars: true, confidence: 'max', decimals: null };
    // Some records have the reference's default, which is over the fixture's own limit.
    if (limits.max_length < 4096) options.max_tokens = limits.max_length;
    if (limits.max_state_tokens) options.max_state_tokens = limits.max_state_tokens;
    const images = image_files.map((file) => dataUrl(new URL(`media/${file}`, TINY)));
    const videos = video_files.map(({ file, fps }) => ({ frames: frames(file), fps }));
    return { id, body: extended(text, { images, videos, x_truncate: 'end' }), options, expected: expected[i] };
  });
}

/** The largest difference of a probability. */
export function difference(decision, expected) {
  let worst = 0;
  for (const { question_id, option_ids, probabilities } of expected.questions) {
    const answer = decision.answers[question_id];
    const found = answer.type === 'noul' ? { true: answer.noul, false: 1 - answer.noul } : answer.probabilities;
    for (const [i, option] of option_ids.entries()) worst = Math.max(worst, Math.abs(found[option] - probabilities[i]));
  }
  return worst;
}

/** A map in JSON with more fields at its end. */
function extended(text, fields) {
  return `${text.trim().slice(0, -1)},${JSON.stringify(fields).slice(1)}`;
}

/** The items of a list in JSON, as they are written. */
function items(text) {
  const found = [];
  let [depth, start, inString] = [0, 0, false];
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (inString) {
      if (character === '\\') at += 1;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = true;
    else if ('[{'.includes(character)) {
      depth += 1;
      if (depth === 2) start = at;
    } else if (']}'.includes(character)) {
      depth -= 1;
      if (depth === 1) found.push(text.slice(start, at + 1));
    }
  }
  return found;
}

function dataUrl(file) {
  return `data:image/png;base64,${readFileSync(file).toString('base64')}`;
}

/** The frames of a stored clip `[T, H, W, 3]`, each as PNG. */
function frames(file) {
  const bytes = readFileSync(new URL(`media/${file}`, TINY));
  const header = Number(bytes.readBigUInt64LE(0));
  const { shape, data_offsets } = JSON.parse(bytes.subarray(8, 8 + header).toString('utf8')).frames;
  const [count, height, width] = shape;
  const data = bytes.subarray(8 + header + data_offsets[0]);
  const size = height * width * 3;
  return Array.from({ length: count }, (_, i) => {
    const frame = png(width, height, data.subarray(i * size, (i + 1) * size));
    return `data:image/png;base64,${frame.toString('base64')}`;
  });
}
