/** The parity suite in the browser: stored INT8 layers bit for bit, and models step by step against their definitions. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, beforeEach, describe, it } from 'node:test';

import { launch } from './browser.mjs';
import { tiny } from './decisions.mjs';
import { serve } from './server.mjs';

let server, browser, page;

before(async () => {
  [server, browser] = await Promise.all([serve(), launch({ webgpu: true })]);
  page = await browser.newPage();
  await page.goto(`${server.url}/site/parity.html`);
  await page.waitForFunction(() => document.title === 'ready');
});

after(async () => {
  await browser?.close();
  await server?.close();
});

beforeEach(() => server.behave());

describe('INT8 layers with stored values', () => {
  for (const backend of ['cpu', 'webgpu']) {
    it(`${backend}: codes, sums and outputs are those, bit for bit`, async (test) => {
      const { layers, codes, outputs, device } = await page.evaluate((backend) => window.layers(backend), backend);
      test.diagnostic(`${device}: ${layers} layers, ${codes} codes, ${outputs} outputs`);
      assert.equal(layers, 9);
      assert.ok(codes > 60_000 && outputs > 2_900);
    });
  }

  it('are told from others by a single bit', async () => {
    const bytes = readFileSync(new URL('../../tests/data/quant/int8_gemm.safetensors', import.meta.url));
    // The last of the codes that are multiplied.
    bytes[bytes.length - 1] ^= 1;
    server.misbehave('/data/quant/int8_gemm.safetensors', { body: bytes });
    await assert.rejects(page.evaluate(() => window.layers('cpu')), /small: output of row/);
  });
});

describe('WebGPU, step by step', () => {
  const fixture = ['config.json', 'tokenizer.json', 'model.safetensors'];

  function judged(test, { pass, first_out_of_contract: first, steps, logits }) {
    const worst = steps.reduce((a, b) => (b.worst / (b.allowed || 1) > a.worst / (a.allowed || 1) ? b : a));
    test.diagnostic(`${steps.length} steps, worst ${worst.worst.toExponential(1)} at ${worst.tensor}, logits ${logits.relative.toExponential(1)}`);
    assert.ok(pass, JSON.stringify(steps[first] ?? logits));
  }

  it('does with CLEF what the steps say, a picture included', async (test) => {
    const { body } = tiny().find(({ id }) => id === 'image_one');
    const names = [...fixture, 'joint_head_config.json', 'processor_config.json', 'joint_head.safetensors'];
    const report = await page.evaluate((given) => window.report(...given), ['decider', '/folders/clef-tiny/', names, body]);
    judged(test, report);
    assert.ok(report.steps.length > 150);
  });

  it('does with GLiClass, FP8, what the steps say', async (test) => {
    const request = JSON.stringify({ text: 'A short text about ships and trains.', labels: ['travel', 'food', 'sea'] });
    const folder = '/data/gliclass-tiny/mt5-fp8/';
    const report = await page.evaluate((given) => window.report(...given), ['classifier', folder, fixture, request]);
    judged(test, report);
    assert.ok(report.steps.length > 40);
  });
});
