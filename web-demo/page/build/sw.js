/** Serves the page's own files from a cache, so that the second visit needs no network. */

const PREFIX = 'dikast-page-';
const NAME = PREFIX + 'VERSION';
const FILES = ['FILES'];

const own = new Set(FILES.map((file) => new URL(file, self.registration.scope).pathname));
const page = new URL('index.html', self.registration.scope);

self.addEventListener('install', (event) => {
  event.waitUntil(
    caches
      .open(NAME)
      .then((cache) => cache.addAll(FILES))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener('activate', (event) => {
  const old = (name) => name.startsWith(PREFIX) && name !== NAME;
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter(old).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== 'GET' || url.origin !== location.origin) return;
  const isPage = request.mode === 'navigate' && url.pathname === new URL('.', page).pathname;
  if (!isPage && !own.has(url.pathname)) return;
  event.respondWith(
    caches
      .open(NAME)
      .then((cache) => cache.match(isPage ? page : url.origin + url.pathname))
      .then((kept) => kept ?? fetch(request)),
  );
});
