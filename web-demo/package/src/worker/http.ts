/** Requests with typed failures. */

import { DikastError } from '../errors.js';
import { notACheckpoint } from './sniff.js';

/** What tells two versions of a file apart without reading them. */
export interface Validators {
  etag?: string;
  modified?: string;
  length?: number;
}

export interface Opened {
  body: ReadableStream<Uint8Array>;
  /** Place in the file at which the body starts. */
  start: number;
  /** Length of the whole file, when the server says so reliably. */
  total: number | undefined;
  validators: Validators;
}

/** Opens a file at a place. A server without ranges answers from the start. */
export async function open(url: string, from: number): Promise<Opened> {
  const response = await request(url, from > 0 ? { headers: { Range: `bytes=${from}-` } } : {});
  if (response.status === 416 && from > 0) {
    await response.body?.cancel();
    return open(url, 0);
  }
  if (!response.ok) throw badStatus(url, response.status);
  refusePage(url, response);
  if (!response.body) throw unreachable(url);
  // A partial answer starts where it was asked to; what else it could say is checked by the sum.
  const start = response.status === 206 ? from : 0;
  const length = bodyLength(url, response);
  const total = length === undefined ? undefined : start + length;
  return { body: response.body, start, total, validators: validatorsOf(response, total) };
}

/** What the server says about a file; `undefined` when it cannot say without sending it. */
export async function look(url: string): Promise<Validators | undefined> {
  const response = await request(url, { method: 'HEAD' });
  if (response.status === 405 || response.status === 501) return undefined;
  if (!response.ok) throw badStatus(url, response.status);
  refusePage(url, response);
  return validatorsOf(response, bodyLength(url, response));
}

/** Whether two answers can be about the same version of a file. */
export function same(a: Validators, b: Validators): boolean {
  const differ = <T>(x: T | undefined, y: T | undefined): boolean => x !== undefined && y !== undefined && x !== y;
  return !differ(a.etag, b.etag) && !differ(a.modified, b.modified) && !differ(a.length, b.length);
}

async function request(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, { ...init, cache: 'no-store' });
  } catch {
    // The reason (no name, no route, no permission for this page) is kept from scripts.
    throw unreachable(url);
  }
}

function refusePage(url: string, response: Response): void {
  if (response.headers.get('content-type')?.startsWith('text/html')) throw notACheckpoint(url, 'a web page');
}

/** The length of the body, where the header counts the bytes that scripts see. */
function bodyLength(url: string, response: Response): number | undefined {
  const header = response.headers.get('content-length');
  if (header === null || response.headers.has('content-encoding')) return undefined;
  // Another origin may hide that its body is compressed; nobody compresses weights.
  const hidden = new URL(url).origin !== location.origin && !url.endsWith('.safetensors');
  return hidden ? undefined : Number(header);
}

function validatorsOf(response: Response, length: number | undefined): Validators {
  const etag = response.headers.get('etag');
  const modified = response.headers.get('last-modified');
  return {
    ...(etag !== null && { etag }),
    ...(modified !== null && { modified }),
    ...(length !== undefined && { length }),
  };
}

function unreachable(url: string): DikastError {
  return new DikastError({ kind: 'Unreachable', url }, `${url}: not reachable`);
}

function badStatus(url: string, status: number): DikastError {
  return new DikastError({ kind: 'HttpStatus', url, status }, `${url}: HTTP status ${status}`);
}
