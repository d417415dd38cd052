import { defineConfig } from 'vite';

import { defaultModel } from './build/default-model.ts';
import { serviceWorker } from './build/service-worker.ts';

export default defineConfig({
  // Relative, so that the page works in any folder of any server.
  base: './',
  build: { target: 'es2022', modulePreload: { polyfill: false } },
  worker: { format: 'es' },
  // It brings its worker and its module by address; bundling it alone would lose them.
  optimizeDeps: { exclude: ['dikast-web'] },
  plugins: [
    defaultModel('virtual:default-model', '../../models/gliclass-mini', ['config.json', 'tokenizer.json', 'model.safetensors']),
    defaultModel('virtual:default-decider', '../../models/clef-mini', [
      'config.json',
      'joint_head_config.json',
      'processor_config.json',
      'tokenizer.json',
      'joint_head.safetensors',
      'model.safetensors',
    ]),
    serviceWorker(),
  ],
});
