/**
 * The test server: the built page at `/`, the package's own files at `/package/`, checkpoint folders at `/folders/…`,
 * and ways to misbehave. Counts what is asked for.
 */

import { createReadStream, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, extname, join, normalize } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';

const HERE = dirname(fileURLToPath(import.meta.url));
const REPOSITORY = join(HERE, '../..');

const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
};

const MOUNTS = [
  ['/package/', join(HERE, '../package/dist')],
  ['/site/', join(HERE, 'site')],
  ['/parity/', join(HERE, '../parity/pkg')],
  ['/data/', join(REPOSITORY, 'tests/data')],
  ['/folders/mini/', join(REPOSITORY, 'models/gliclass-mini')],
  ['/folders/clef-mini/', join(REPOSITORY, 'models/clef-mini')],
  ['/folders/clef-tiny/', join(REPOSITORY, 'tests/data/clef-tiny/model')],
  ['/folders/tiny/', join(REPOSITORY, 'tests/data/gliclass-tiny/mt5')],
  ['/folders/other-architecture/', join(REPOSITORY, 'tests/data/gliclass-tiny/variants/modernbert-mlp-first')],
  ['/', join(HERE, '../page/dist')],
];

/** Starts a server on a free port. */
export async function serve() {
  const requests = [];
  /** Path → what to do instead of serving the file; see {@link misbehave}. */
  const faults = new Map();
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    requests.push({ method: request.method, path, range: request.headers.range });
    const fault = faults.get(path) ?? faults.get(`${dirname(path)}/*`);
    const file = locate(path);
    if (fault?.once && request.method === 'GET') faults.delete(path);
    if (fault?.page) return page(response);
    if (fault?.status) return refuse(response, fault.status);
    if (file === undefined && fault?.body === undefined) return refuse(response, 404);
    send(request, response, file, fault ?? {});
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    /** `localhost` is a secure context for the browser. */
    url: `http://localhost:${server.address().port}`,
    requests,
    /**
     * `{page}`: a web page instead. `{status}`: an error. `{cut}`: breaks the connection after so many bytes.
     * `{short}`: serves only so many bytes as if they were all. `{slow}`: milliseconds between pieces of 256 KiB.
     * `{body}`: other bytes. `{prepend}`, `{append}`: more text around it. `{once}`: only the next time.
     */
    misbehave: (path, fault) => faults.set(path, fault),
    behave: () => faults.clear(),
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

function locate(path) {
  const wanted = path.endsWith('/') ? `${path}index.html` : path;
  const [prefix, folder] = MOUNTS.find(([prefix]) => wanted.startsWith(prefix));
  const file = join(folder, normalize(`/${wanted.slice(prefix.length)}`));
  const found = statSync(file, { throwIfNoEntry: false });
  return found?.isFile() ? file : undefined;
}

function page(response) {
  response.writeHead(200, { 'content-type': TYPES['.html'] });
  response.end('<!doctype html><title>Sign in</title>');
}

function refuse(response, status) {
  response.writeHead(status, { 'content-type': 'text/plain' });
  response.end(`status ${status}`);
}

function send(request, response, file, fault) {
  const { prepend, append } = fault;
  const more = prepend !== undefined || append !== undefined;
  const text = more ? (prepend ?? '') + readFileSync(file, 'utf8') + (append ?? '') : fault.body;
  const body = text === undefined ? undefined : Buffer.from(text);
  const size = body?.length ?? fault.short ?? statSync(file).size;
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
  if (from > size || (from === size && from > 0)) return refuse(response, 416);
  const headers = {
    'content-type': TYPES[extname(file ?? '')] ?? 'application/octet-stream',
    'content-length': size - from,
    'accept-ranges': 'bytes',
    etag: `"${size}"`,
    'cache-control': 'no-cache',
  };
  if (from > 0) headers['content-range'] = `bytes ${from}-${size - 1}/${size}`;
  response.writeHead(from > 0 ? 206 : 200, headers);
  if (request.method === 'HEAD') return response.end();
  if (body) return response.end(body.subarray(from));
  const last = Math.min(size, fault.cut ?? size) - 1;
  const breakOff = () => setTimeout(() => response.destroy(), 50);
  if (last < from) {
    response.flushHeaders();
    return breakOff();
  }
  const stream = createReadStream(file, { start: from, end: last, highWaterMark: 256 << 10 });
  pipeline(stream, slowly(fault), response, { end: fault.cut === undefined }).then(
    () => fault.cut !== undefined && breakOff(),
    () => {}, // The browser went away.
  );
}

function slowly({ slow = 0 }) {
  return async function* (pieces) {
    for await (const piece of pieces) {
      yield piece;
      if (slow > 0) await new Promise((resolve) => setTimeout(resolve, slow));
    }
  };
}
