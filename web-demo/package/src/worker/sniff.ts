/** Recognises what is served or saved in place of a checkpoint's file. */

import { DikastError } from '../errors.js';

const LOOKED_AT = 512;

/** @throws DikastError `NotACheckpoint` when a file begins like a web page or a pointer to another file. */
export function refuseForeign(head: Uint8Array, place: string): void {
  const text = new TextDecoder().decode(head.subarray(0, LOOKED_AT)).replace(/^\uFEFF/, '').trimStart().toLowerCase();
  if (/^(<!doctype html|<html|<head|<\?xml)/.test(text)) throw notACheckpoint(place, 'a web page');
  if (text.startsWith('version https://git-lfs')) throw notACheckpoint(place, 'a Git LFS pointer');
}

export function notACheckpoint(place: string, found: string): DikastError {
  return new DikastError(
    { kind: 'NotACheckpoint', place, found },
    `${place}: ${found} found, a checkpoint's file is needed`,
  );
}
