/** The package on WebGPU, through the browser's software adapter. Skipped while the module is built without it. */

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { launch } from './browser.mjs';
import { CASES, TOLERANCE } from './goldens.mjs';
import { serve } from './server.mjs';

/** In the worker: remembers every device, and destroys them when a test says so. */
const DEVICES = `
  const devices = [];
  const requestDevice = globalThis.GPUAdapter?.prototype.requestDevice;
  if (requestDevice) {
    GPUAdapter.prototype.requestDevice = async function (...asked) {
      const device = await requestDevice.apply(this, asked);
      devices.push(device);
      return device;
    };
  }
  addEventListener('message', (event) => {
    if (event.data !== 'destroy devices') return;
    event.stopImmediatePropagation();
    for (const device of devices.splice(0)) device.destroy();
    postMessage('destroyed');
  });
`;

let server, browser, page;

before(async () => {
  [server, browser] = await Promise.all([serve(), launch({ webgpu: true })]);
  server.misbehave('/package/worker/main.js', { prepend: DEVICES });
  page = await browser.newPage();
  await page.addInitScript(() => {
    window.workers = [];
    window.Worker = class extends Worker {
      constructor(...given) {
        super(...given);
        window.workers.push(this);
      }
    };
  });
  await page.goto(`${server.url}/site/`);
  await page.waitForFunction(() => document.title === 'ready');
});

after(async () => {
  await browser?.close();
  await server?.close();
});

describe('WebGPU', () => {
  it('answers like the reference, also after the device was lost', async (test) => {
    const { value: info, error } = await page.evaluate(() =>
      window.outcome(
        window.dikast.Classifier.load('/folders/mini/', { backend: 'webgpu' }).then((model) => {
          window.model = model;
          return model.info;
        }),
      ),
    );
    if (error?.kind === 'Unsupported' && error.device === 'this build') return test.skip(error.message);
    assert.equal(error, undefined);
    assert.equal(info.backend, 'wgpu');
    const compare = async ({ text, labels, sigmoid }) => {
      const { value: answer } = await page.evaluate(
        (request) => window.outcome(window.model.classify(...request)),
        [text, labels],
      );
      for (const [i, { score }] of answer.scores.entries()) {
        assert.ok(Math.abs(score - sigmoid[i]) <= TOLERANCE, `${text}: ${labels[i]}: ${score}, ${sigmoid[i]}`);
      }
    };
    for (const item of CASES) await compare(item);
    await page.evaluate(async () => {
      const worker = window.workers.at(-1);
      await new Promise((resolve) => {
        worker.addEventListener('message', ({ data }) => data === 'destroyed' && resolve());
        worker.postMessage('destroy devices');
      });
    });
    await compare(CASES[0]);
  });
});
