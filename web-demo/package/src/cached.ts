/** What the package keeps in the browser. */

const NAME = 'dikast-models';

/** Removes every model that this package keeps for this origin. Models in use stay in memory. */
export async function clearCache(): Promise<void> {
  if ('caches' in globalThis) await caches.delete(NAME).catch(() => false);
  try {
    const root = await navigator.storage.getDirectory();
    await root.removeEntry(NAME, { recursive: true });
  } catch {
    // Nothing was kept there.
  }
}
