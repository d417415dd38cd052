/** Ships a checkpoint folder beside the page and tells the page its manifest. */

import { createHash } from 'node:crypto';
import { copyFileSync, createReadStream, mkdirSync, readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import type { Plugin } from 'vite';

const FILES = ['config.json', 'tokenizer.json', 'model.safetensors'];
const MODULE = 'virtual:default-model';

/** `import model from 'virtual:default-model'` gives `{ base, manifest }` of the folder's files. */
export function defaultModel(folder: string): Plugin {
  const name = basename(folder);
  const base = `models/${name}/`;
  let source = '';
  let output = '';
  return {
    name: 'default-model',
    configResolved(config) {
      source = resolve(config.root, folder);
      output = resolve(config.root, config.build.outDir, base);
    },
    resolveId: (id) => (id === MODULE ? `\0${MODULE}` : undefined),
    load(id) {
      if (id !== `\0${MODULE}`) return undefined;
      const files = Object.fromEntries(FILES.map((file) => [file, facts(join(source, file))]));
      return `export default ${JSON.stringify({ base, manifest: { name, files } })}`;
    },
    configureServer(server) {
      server.middlewares.use(`/${base}`, (request, response, next) => {
        const file = FILES.find((file) => request.url === `/${file}`);
        if (file) createReadStream(join(source, file)).pipe(response);
        else next();
      });
    },
    writeBundle() {
      mkdirSync(output, { recursive: true });
      for (const file of FILES) copyFileSync(join(source, file), join(output, file));
    },
  };
}

function facts(path: string): { bytes: number; sha256: string } {
  const bytes = readFileSync(path);
  return { bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
}
