/** Writes the service worker that makes the page itself work offline. Models are kept by the package, not here. */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Plugin } from 'vite';

/** Puts the list of the built files into `build/sw.js` and emits it as `sw.js`. */
export function serviceWorker(): Plugin {
  let root = '';
  return {
    name: 'service-worker',
    apply: 'build',
    enforce: 'post',
    configResolved(config) {
      root = config.root;
    },
    generateBundle: {
      order: 'post',
      handler(_options, bundle) {
        const files = [...Object.keys(bundle), 'theme.js', 'icon.svg'].sort();
        const version = createHash('sha256');
        for (const file of Object.values(bundle)) {
          version.update(file.fileName).update(file.type === 'chunk' ? file.code : file.source);
        }
        for (const file of ['theme.js', 'icon.svg']) version.update(readFileSync(join(root, 'public', file)));
        const source = readFileSync(join(root, 'build/sw.js'), 'utf8')
          .replace("'VERSION'", JSON.stringify(version.digest('hex').slice(0, 16)))
          .replace("['FILES']", JSON.stringify(files));
        this.emitFile({ type: 'asset', fileName: 'sw.js', source });
      },
    },
  };
}
