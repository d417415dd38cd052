/** The scores of the reference package on the built-in model. */

import { readFileSync } from 'node:fs';

const file = new URL('../../models/gliclass-mini/expected.json', import.meta.url);

/** `{text, labels, sigmoid, softmax, top}` of each case. */
export const CASES = JSON.parse(readFileSync(file, 'utf8')).cases;

/** Largest difference of a score from the reference. */
export const TOLERANCE = 1e-3;
