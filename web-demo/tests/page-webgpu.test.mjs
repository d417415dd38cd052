/** The page on WebGPU, through the browser's software adapter. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';

import { launch } from './browser.mjs';
import { devices, keepWorkers, tell } from './devices.mjs';
import { serve } from './server.mjs';

const ASSETS = new URL('../page/dist/assets/', import.meta.url);

let server, browser, context, page;

before(async () => {
  [server, browser] = await Promise.all([serve(), launch({ webgpu: true })]);
});

after(async () => {
  await browser?.close();
  await server?.close();
});

beforeEach(async () => {
  server.behave();
  context = await browser.newContext();
  page = await context.newPage();
});

afterEach(() => context.close());

/** The page as a person finds it who chose WebGPU on an earlier visit. */
async function openOnWebGpu() {
  await page.addInitScript(() => localStorage.getItem('dikast-device') ?? localStorage.setItem('dikast-device', 'webgpu'));
  await page.goto(server.url);
}

async function answered() {
  await page.waitForFunction(() => document.querySelector('#bars:not([hidden]):not(.stale) li') !== null);
  return page.locator('#bars li').first().getAttribute('data-label');
}

describe('the page on WebGPU', () => {
  it('answers a first visitor, and prints how soon', async (test) => {
    const start = performance.now();
    await openOnWebGpu();
    assert.equal(await answered(), 'space');
    test.diagnostic(`first answer after ${Math.round(performance.now() - start)} ms`);
    assert.match(await page.locator('#state-text').innerText(), /Ready on the GPU/);
  });

  it('is chosen by hand and remembered, and says which adapter and features are in use', async () => {
    await page.goto(server.url);
    assert.equal(await answered(), 'space');
    // Software: auto takes the CPU.
    assert.match(await page.locator('#facts').innerText(), /Because\s+the WebGPU adapter \(google swiftshader\) is software/);
    await page.locator('.device').getByText('WebGPU').click();
    await page.waitForFunction(() => document.querySelector('#state-text').textContent === 'Ready on the GPU');
    assert.equal(await answered(), 'space');
    const facts = await page.locator('#facts').innerText();
    for (const fact of [/Runs on\s+GPU, google swiftshader, by WebGPU/, /Because\s+asked for/, /products\s+f32/, /shader-f16\s+false/]) {
      assert.match(facts, fact);
    }
    assert.match(await page.locator('#timing').innerText(), /· GPU$/);
    await page.reload();
    assert.ok(await page.locator('#device-webgpu').isChecked());
  });

  it('offers the CPU when the device is lost for good', async () => {
    const worker = readdirSync(ASSETS).find((name) => /^main-.*\.js$/.test(name));
    server.misbehave(`/assets/${worker}`, { prepend: devices() });
    await page.addInitScript(keepWorkers);
    await openOnWebGpu();
    assert.equal(await answered(), 'space');
    await tell(page, { destroy: true, doomed: true });
    await page.fill('#text', 'The striker scored twice.');
    await page.waitForSelector('#failure:not([hidden])');
    assert.equal(await page.locator('#failure').getAttribute('data-kind'), 'DeviceLost');
    assert.match(await page.locator('#failure-title').innerText(), /graphics device went away/);
    await page.click('#failure-cpu');
    await page.waitForFunction(() => document.querySelector('#state-text').textContent === 'Ready on the CPU');
    assert.equal(await answered(), 'sports');
    assert.ok(await page.locator('#device-cpu').isChecked());
  });
});
