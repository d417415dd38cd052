/**
 * The test server: the built page at `/`, the package's own files at `/package/`, checkpoint folders at `/folders/…`,
 * and ways to misbehave. Counts what is asked for.
 */

import { createReadStream, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, extname, join, normalize } from 'node:path';
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
  ['/folders/mini/', join(REPOSITORY, 'models/gliclass-mini')],
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
    if (fault?.once) faults.delete(path);
    if (fault?.page) return page(response);
    if (fault?.status) return refuse(response, fault.status);
    if (file === undefined) return refuse(response, 404);
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
     * `{body}`: other bytes. `{once}`: only the next time.
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
  const body = fault.body === undefined ? undefined : Buffer.from(fault.body);
  const size = body?.length ?? fault.short ?? statSync(file).size;
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
  if (from > size || (from === size && from > 0)) return refuse(response, 416);
  const headers = {
    'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
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
  if (last < from) return response.destroy();
  const stream = createReadStream(file, { start: from, end: last, highWaterMark: 256 << 10 });
  stream.on('end', () => (fault.cut === undefined ? response.end() : response.destroy()));
  response.on('close', () => stream.destroy());
  pump(stream, response, fault.slow ?? 0);
}

async function pump(stream, response, pause) {
  try {
    for await (const piece of stream) {
      if (response.destroyed) return;
      if (!response.write(piece)) await new Promise((resolve) => response.once('drain', resolve).once('close', resolve));
      if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
    }
  } catch {
    // The browser went away.
  }
}
