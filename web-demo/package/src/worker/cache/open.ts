/** Chooses where to keep a checkpoint. */

import type { CacheChoice } from '../../protocol.js';
import { CacheStorageCache } from './cache-storage.js';
import { type ModelCache, NO_CACHE } from './cache.js';
import { OpfsCache } from './opfs.js';
import { hex } from '../intake.js';
import { forgiving } from './forgiving.js';

/** The cache of the checkpoint at an address; one that keeps nothing when the browser allows none. */
export async function openCache(choice: CacheChoice, base: string): Promise<ModelCache> {
  const key = await keyOf(base);
  const kinds = choice === 'auto' ? (['opfs', 'cache-storage'] as const) : [choice];
  for (const kind of kinds) {
    try {
      if (kind === 'opfs') return forgiving(await OpfsCache.open(key));
      if (kind === 'cache-storage') return forgiving(await CacheStorageCache.open(key));
    } catch {
      // Private windows and old browsers refuse in many ways.
    }
  }
  return NO_CACHE;
}

/** A folder name for an address. */
async function keyOf(base: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(base));
  return hex(digest).slice(0, 32);
}
