/** Ships a checkpoint folder beside the page and tells the page its manifest. */

import { createHash } from 'node:crypto';
import { copyFileSync, createReadStream, mkdirSync, readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import type { Plugin } from 'vite';

/** `import model from module` gives `{ base, manifest }` of these files of the folder. */
export function defaultModel(module: string, folder: string, files: readonly string[]): Plugin {
  const name = basename(folder);
  const base = `models/${name}/`;
  let source = '';
  let output = '';
  return {
    name: `default-model-${name}`,
    configResolved(config) {
      source = resolve(config.root, folder);
      output = resolve(config.root, config.build.outDir, base);
    },
    resolveId: (id) => (id === module ? `\0${module}` : undefined),
    load(id) {
      if (id !== `\0${module}`) return undefined;
      const known = Object.fromEntries(files.map((file) => [file, facts(join(source, file))]));
      return `export default ${JSON.stringify({ base, manifest: { name, files: known } })}`;
    },
    configureServer(server) {
      server.middlewares.use(`/${base}`, (request, response, next) => {
        const file = files.find((file) => request.url === `/${file}`);
        if (file) createReadStream(join(source, file)).pipe(response);
        else next();
      });
    },
    writeBundle() {
      mkdirSync(output, { recursive: true });
      for (const file of files) copyFileSync(join(source, file), join(output, file));
    },
  };
}

function facts(path: string): { bytes: number; sha256: string } {
  const bytes = readFileSync(path);
  return { bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
}
