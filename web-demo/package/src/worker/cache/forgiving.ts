/** Keeps the failures of a cache away from loading. */

import { type CacheWriter, type ModelCache, NO_CACHE } from './cache.js';

/** The same cache; when it fails to write (full, locked by another tab), the file is simply not kept. */
export function forgiving(cache: ModelCache): ModelCache {
  const quietly = async <T>(work: () => Promise<T>, otherwise: T): Promise<T> => {
    try {
      return await work();
    } catch {
      return otherwise;
    }
  };
  return {
    kind: cache.kind,
    find: (file) => quietly(() => cache.find(file), undefined),
    read: (file, kept) => cache.read(file, kept),
    remove: (file) => quietly(() => cache.remove(file), undefined),
    async write(file, from, validators) {
      let writer: CacheWriter = await quietly(
        () => cache.write(file, from, validators),
        await NO_CACHE.write(file, from, validators),
      );
      const orGiveUp = async (work: (writer: CacheWriter) => Promise<void>): Promise<void> => {
        try {
          await work(writer);
        } catch {
          const failed = writer;
          writer = await NO_CACHE.write(file, from, validators);
          await quietly(() => failed.close(), undefined);
          await quietly(() => cache.remove(file), undefined);
        }
      };
      return {
        append: (chunk) => orGiveUp((writer) => writer.append(chunk)),
        complete: (sha256) => orGiveUp((writer) => writer.complete(sha256)),
        close: () => orGiveUp((writer) => writer.close()),
      };
    },
  };
}
