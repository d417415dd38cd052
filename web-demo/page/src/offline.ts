/** The service worker that keeps the page itself. */

/** Registers it once the page has nothing better to do; whether the page now works offline. */
export async function keepPage(): Promise<boolean> {
  if (!import.meta.env.PROD || !('serviceWorker' in navigator)) return false;
  try {
    await navigator.serviceWorker.register('./sw.js');
    await navigator.serviceWorker.ready;
    // Asked after the first model, when the browser can see that the page is used.
    await navigator.storage.persist?.();
    return true;
  } catch {
    return false;
  }
}
