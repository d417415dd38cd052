/** The package on WebGPU, through the browser's software adapter. */

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';

import { launch } from './browser.mjs';
import { devices, keepWorkers, tell } from './devices.mjs';
import { CASES } from './goldens.mjs';
import { serve } from './server.mjs';

/** The adapter has no f16: everything is f32 there. */
const TOLERANCE = 1e-4;
const WORKER = '/package/worker/main.js';

let server, browser, context, page;

before(async () => {
  [server, browser] = await Promise.all([serve(), launch({ webgpu: true })]);
});

after(async () => {
  await browser?.close();
  await server?.close();
});

beforeEach(() => server.behave());
afterEach(() => context?.close());

/** A fresh page whose worker's devices do as `settings` say. */
async function open(settings) {
  context = await browser.newContext();
  page = await context.newPage();
  server.misbehave(WORKER, { prepend: devices(settings) });
  await page.addInitScript(keepWorkers);
  await page.goto(`${server.url}/site/`);
  await page.waitForFunction(() => document.title === 'ready');
}

/** Loads in the page and keeps the model as `window.model`; its facts or the error, and the reports. */
async function load(source, backend) {
  const { value, error } = await page.evaluate(
    async ([source, backend]) => {
      const seen = [];
      const progress = (report) => seen.push(report);
      const loading = window.dikast.Classifier.load(source, { backend, progress }).then((model) => {
        window.model = model;
        return { info: model.info, seen };
      });
      return window.outcome(loading);
    },
    [source, backend],
  );
  return { ...value, error };
}

function classify(text, labels, options = {}) {
  return page.evaluate((request) => window.outcome(window.model.classify(...request)), [text, labels, options]);
}

async function scores({ text, labels }) {
  const { value, error } = await classify(text, labels);
  assert.equal(error, undefined);
  return value.scores.map(({ score }) => score);
}

function compare(found, { text, labels, sigmoid }) {
  for (const [i, score] of found.entries()) {
    assert.ok(Math.abs(score - sigmoid[i]) <= TOLERANCE, `${text}: ${labels[i]}: ${score}, ${sigmoid[i]}`);
  }
}

describe('WebGPU', () => {
  it('says where it runs, and counts the bytes of the upload', async () => {
    await open();
    const { info, seen } = await load('/folders/mini/', 'webgpu');
    assert.deepEqual([info.backend, info.reason, info.device], ['webgpu', 'asked for', 'google swiftshader']);
    assert.equal(info.details.products, 'f32');
    assert.ok(Number(info.details['storage binding bytes']) >= 128 << 20);
    const upload = seen.filter(({ stage }) => stage === 'upload');
    assert.ok(upload.length >= 2, `${upload.length} reports`);
    const { done, total } = upload.at(-1);
    assert.equal(done, total);
    assert.ok(Math.abs(total - info.memory.device_weights) < 1e6, `${total} of ${info.memory.device_weights}`);
  });

  it('agrees with the reference in every score, one by one and in quick succession', async () => {
    await open();
    await load('/folders/mini/', 'webgpu');
    const alone = [];
    for (const item of CASES) alone.push(await scores(item));
    for (const [i, item] of CASES.entries()) compare(alone[i], item);
    const together = await page.evaluate(
      (cases) => Promise.all(cases.map(({ text, labels }) => window.model.classify(text, labels))),
      CASES.slice(0, 4),
    );
    assert.deepEqual(together.map((answer) => answer.scores.map(({ score }) => score)), alone.slice(0, 4));
  });

  it('gives up all but the last of 30 quick requests', async () => {
    await open();
    await load('/folders/tiny/', 'webgpu');
    const kinds = await page.evaluate(async () => {
      const outcomes = [];
      let controller;
      for (let i = 1; i <= 30; i++) {
        controller?.abort();
        controller = new AbortController();
        outcomes.push(window.outcome(window.model.classify(`Request ${i}`, ['a', 'b'], { signal: controller.signal })));
      }
      return (await Promise.all(outcomes)).map(({ error }) => error?.kind ?? 'answered');
    });
    assert.deepEqual(kinds, [...Array(29).fill('Cancelled'), 'answered']);
  });
});

describe('a lost device', () => {
  it('is opened anew within the same request', async () => {
    await open();
    await load('/folders/tiny/', 'webgpu');
    const before = await scores(CASES[0]);
    assert.equal(await tell(page, { destroy: true }), 1);
    assert.deepEqual(await scores(CASES[0]), before);
    assert.equal(await tell(page, {}), 2, 'devices');
  });

  it('that is lost again is a typed error, and the next request tries once more', async () => {
    await open();
    await load('/folders/tiny/', 'webgpu');
    const before = await scores(CASES[0]);
    await tell(page, { destroy: true, doomed: true });
    const { error } = await classify(CASES[0].text, CASES[0].labels);
    assert.deepEqual([error.typed, error.kind], [true, 'DeviceLost']);
    await tell(page, { doomed: false });
    assert.deepEqual(await scores(CASES[0]), before);
  });
});

describe('a device that does not do', () => {
  it('has too little memory', async () => {
    await open({ memory: true });
    const { error } = await load('/folders/tiny/', 'webgpu');
    assert.deepEqual([error?.typed, error?.kind], [true, 'OutOfMemory']);
    assert.ok(error.needed > 0);
  });

  it('is not granted', async () => {
    await open({ refuse: true });
    const { error } = await load('/folders/tiny/', 'webgpu');
    assert.deepEqual([error?.kind, error?.device], ['Limits', 'google swiftshader']);
  });
});

describe('auto', () => {
  it('takes the CPU where the adapter is software', async () => {
    await open();
    const { info } = await load('/folders/tiny/', 'auto');
    assert.deepEqual([info.backend, info.reason], ['cpu', 'the WebGPU adapter (google swiftshader) is software']);
  });

  it('takes WebGPU on a hardware adapter', async () => {
    await open({ hardware: true });
    const { info } = await load('/folders/tiny/', 'auto');
    assert.deepEqual([info.backend, info.device], ['webgpu', 'google invented']);
  });

  for (const trouble of ['memory', 'refuse']) {
    it(`goes on with the CPU when that adapter fails (${trouble})`, async () => {
      await open({ hardware: true, [trouble]: true });
      const { info } = await load('/folders/tiny/', 'auto');
      assert.equal(info.backend, 'cpu');
      assert.match(info.reason, /^WebGPU failed: /);
      assert.equal((await scores(CASES[0])).length, CASES[0].labels.length);
    });
  }
});
