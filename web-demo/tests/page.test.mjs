/** The page as a person uses it. */

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';

import { launch } from './browser.mjs';
import { CASES, TOLERANCE } from './goldens.mjs';
import { serve } from './server.mjs';

const MODEL = '/models/gliclass-mini/model.safetensors';

let server, browser, context, page, complaints;

before(async () => {
  [server, browser] = await Promise.all([serve(), launch()]);
});

after(async () => {
  await browser?.close();
  await server?.close();
});

beforeEach(async () => {
  server.behave();
  server.requests.length = 0;
  context = await browser.newContext();
  page = await context.newPage();
  complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
});

afterEach(async () => {
  await context.close();
  assert.deepEqual(complaints, [], 'nothing was thrown past the page');
});

async function open(query = '') {
  await page.goto(`${server.url}/${query}`);
  await page.waitForFunction(() => document.querySelector('#bars li, #failure:not([hidden])') !== null);
}

/** What the page shows: label → score, best first. */
async function shown() {
  await page.waitForFunction(() => document.querySelector('#bars:not([hidden]):not(.stale) li') !== null);
  const rows = await page.locator('#bars li').evaluateAll((rows) => rows.map(({ dataset }) => [dataset.label, Number(dataset.score)]));
  return Object.fromEntries(rows);
}

async function ask(text, labels, { multi = false } = {}) {
  await page.fill('#text', text);
  while ((await page.locator('#chip-list li').count()) > 0) await page.locator('#chip-list button').last().press('Delete');
  for (const label of labels) {
    await page.fill('#label-input', label);
    await page.press('#label-input', 'Enter');
  }
  await page.getByText(multi ? 'Any number' : 'Exactly one').click();
}

async function answered(text, labels) {
  await page.waitForFunction(
    (labels) => {
      const bars = document.querySelector('#bars:not([hidden]):not(.stale)');
      const names = [...(bars?.children ?? [])].map(({ dataset }) => dataset.label);
      return names.length === labels.length && labels.every((label) => names.includes(label));
    },
    labels,
    { timeout: 20_000 },
  );
  return shown();
}

async function failure() {
  await page.waitForSelector('#failure:not([hidden])');
  return {
    kind: await page.locator('#failure').getAttribute('data-kind'),
    title: await page.locator('#failure-title').innerText(),
    text: await page.locator('#failure-text').innerText(),
    hint: await page.locator('#failure-hint').innerText(),
  };
}

describe('the first visit', () => {
  it('is answered on the CPU, and prints how soon', async (test) => {
    const start = performance.now();
    await open();
    assert.equal(Object.keys(await shown())[0], 'space');
    test.diagnostic(`first answer after ${Math.round(performance.now() - start)} ms`);
  });

  it('shows progress in bytes, then an answer and what runs where', async () => {
    server.misbehave(MODEL, { slow: 4 });
    await page.goto(server.url);
    await page.waitForFunction(() => /\d+\.\d MB of 44\.4 MB/.test(document.querySelector('#loading-bytes').textContent));
    await open();
    assert.equal(Object.keys(await shown())[0], 'space');
    const facts = await page.locator('#facts').innerText();
    for (const fact of ['gliclass-mini', 'BF16', 'SHA-256 of every file', 'CPU, WebAssembly with SIMD']) {
      assert.ok(facts.includes(fact), `${fact} in ${facts}`);
    }
    // This browser was started without a WebGPU adapter: the page says so and goes on.
    assert.match(await page.locator('#browser').innerText(), /WebGPU\s+the browser offers no adapter/);
    assert.match(await page.locator('#state-text').innerText(), /Ready on the CPU/);
    assert.match(await page.locator('#timing').innerText(), /\d+ ms · 22 tokens · CPU/);
  });

  it('agrees with the reference in what it shows', async () => {
    await open();
    for (const [i, { text, labels, sigmoid, softmax }] of CASES.slice(0, 4).entries()) {
      const multi = i % 2 === 1;
      await ask(text, labels, { multi });
      const scores = await answered(text, labels);
      const expected = multi ? sigmoid : softmax;
      for (const [j, label] of labels.entries()) {
        assert.ok(Math.abs(scores[label] - expected[j]) <= TOLERANCE, `${text}: ${label}: ${scores[label]}, ${expected[j]}`);
      }
      const values = Object.values(scores);
      assert.deepEqual(values, values.toSorted((a, b) => b - a), 'best first');
    }
  });
});

describe('the second visit', () => {
  it('needs no network', async () => {
    await open();
    await page.waitForFunction(() => document.querySelector('#state-more').textContent.includes('works offline'));
    await context.setOffline(true);
    const before = server.requests.length;
    await page.reload();
    await open();
    assert.equal(Object.keys(await shown())[0], 'space');
    assert.match(await page.locator('#facts').innerText(), /kept in this browser from an earlier visit/);
    // The browser itself looks for a newer service worker; the page does not wait for it.
    const asked = server.requests.slice(before).filter(({ path }) => path !== '/sw.js');
    assert.deepEqual(asked, [], 'nothing was asked for');
  });

  it('finds damage in what was kept and fetches it again', async () => {
    await open();
    const expected = await shown();
    await page.evaluate(async () => {
      const models = await (await navigator.storage.getDirectory()).getDirectoryHandle('dikast-models');
      for await (const folder of models.values()) {
        const file = await folder.getFileHandle('model.safetensors');
        const writable = await file.createWritable({ keepExistingData: true });
        await writable.write({ type: 'write', position: 30_000_000, data: new Uint8Array([1, 2, 3, 4]) });
        await writable.close();
      }
    });
    server.requests.length = 0;
    await page.reload();
    await open();
    assert.deepEqual(await shown(), expected);
    assert.match(await page.locator('#facts').innerText(), /Repaired\s+model\.safetensors/);
    assert.equal(server.requests.filter(({ path }) => path === MODEL).length, 1);
    assert.equal(server.requests.filter(({ path }) => path.endsWith('tokenizer.json')).length, 0);
  });

  it('starts anew after the kept models were removed', async () => {
    await open();
    await page.click('#forget');
    await page.waitForFunction(() => document.querySelector('#source-note').textContent.includes('Nothing is kept'));
    await page.reload();
    await open();
    assert.match(await page.locator('#facts').innerText(), /downloaded \(44\.4 MB\)/);
  });
});

describe('typing', () => {
  it('shows the answer to the last of 30 quick changes, and no older one after it', async () => {
    await open();
    await page.evaluate(async () => {
      const text = document.querySelector('#text');
      // Every set of bars that is shown as current, with the text at that moment.
      window.current = [];
      new MutationObserver(() => {
        const bars = document.querySelector('#bars:not([hidden]):not(.stale)');
        if (bars) window.current.push([text.value, bars.firstElementChild?.dataset.score]);
      }).observe(document.querySelector('.verdict'), { attributes: true, childList: true, subtree: true });
      for (let i = 1; i <= 30; i++) {
        text.value = `${'The team scored again. '.repeat(i % 7)} Change ${i}: the minister resigned.`;
        text.dispatchEvent(new Event('input', { bubbles: true }));
        await new Promise((resolve) => setTimeout(resolve, i % 5 === 0 ? 140 : 15));
      }
    });
    const last = await page.inputValue('#text');
    const scores = await answered(last, ['space', 'politics', 'sports', 'business']);
    // The same text alone.
    await page.fill('#text', '');
    await page.waitForSelector('#placeholder:not([hidden])');
    await page.fill('#text', last);
    assert.deepEqual(await answered(last, Object.keys(scores)), scores);
    const current = await page.evaluate(() => window.current);
    const ofLast = new Set(current.filter(([text]) => text === last).map(([, score]) => Number(score)));
    assert.deepEqual([...ofLast], [Math.max(...Object.values(scores))]);
  });

  it('says what is missing', async () => {
    await open();
    await page.fill('#text', '  ');
    await page.waitForSelector('#placeholder:has-text("Write a text")');
    await ask('something', []);
    await page.waitForSelector('#placeholder:has-text("at least one label")');
  });

  it('says what was left out of a long text', async () => {
    await open();
    await page.fill('#text', 'word '.repeat(1500));
    await page.waitForSelector('#remark:not([hidden])');
    assert.match(await page.locator('#remark').innerText(), /its last [\d,]+ tokens were left out/);
  });
});

describe('the labels', () => {
  const labels = () => page.locator('#chip-list li').evaluateAll((items) => items.map(({ textContent }) => textContent.replace('×', '')));

  it('are added, walked through and removed by keyboard', async () => {
    await open();
    await page.focus('#label-input');
    await page.keyboard.type('art,');
    await page.keyboard.type('chess');
    await page.keyboard.press('Enter');
    assert.deepEqual(await labels(), ['space', 'politics', 'sports', 'business', 'art', 'chess']);
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('Delete');
    assert.deepEqual(await labels(), ['space', 'politics', 'sports', 'business', 'chess']);
    await page.keyboard.press('Home');
    await page.keyboard.press('Backspace');
    await page.keyboard.press('End');
    await page.keyboard.type('end');
    await page.keyboard.press('Enter');
    assert.deepEqual(await labels(), ['politics', 'sports', 'business', 'chess', 'end']);
    assert.deepEqual(Object.keys(await answered('', await labels())).toSorted(), (await labels()).toSorted());
  });

  it('are refused twice, with the reason', async () => {
    await open();
    await page.fill('#label-input', 'sports');
    await page.press('#label-input', 'Enter');
    assert.match(await page.locator('#label-note').innerText(), /“sports” is already there/);
    assert.equal((await labels()).length, 4);
  });

  it('over the limit are counted in the message', async () => {
    await open();
    await page.evaluate(() => {
      const many = Array.from({ length: 4200 }, (_, i) => `label ${i}`).join('\n');
      const data = new DataTransfer();
      data.setData('text', many);
      document.querySelector('#label-input').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, cancelable: true }));
    });
    const { kind, title, text } = await failure();
    assert.deepEqual([kind, title], ['TooLarge', 'Too many labels']);
    assert.match(text, /limit of 4,096/);
    await page.locator('#examples button').first().click();
    assert.equal(Object.keys(await shown()).length, 4);
  });
});

describe('another model', () => {
  /** Address, what the server does → kind and title on the page. */
  const wrong = {
    'nothing answers': ['http://localhost:9/', {}, 'Unreachable', /Nothing answered/, /CORS/],
    'a wrong address': ['/folders/none/', {}, 'HttpStatus', /No such file/, /config\.json, tokenizer\.json/],
    'a web page': ['/folders/tiny/', { '/folders/tiny/*': { page: true } }, 'NotACheckpoint', /not a model/, /page about a model/],
    'a truncated file': ['/folders/tiny/', { '/folders/tiny/model.safetensors': { cut: 4000 } }, 'Truncated', /ends too early/, /continues where it stopped/],
    'a shortened file': ['/folders/tiny/', { '/folders/tiny/model.safetensors': { short: 4000 } }, 'Checkpoint', /damaged or incomplete/, /Nothing was loaded/],
    'another architecture': ['/folders/other-architecture/', {}, 'Unsupported', /Another kind of model/, /weights were not downloaded/],
  };
  for (const [what, [address, faults, kind, title, hint]] of Object.entries(wrong)) {
    it(`${what}: has its own message, and a way back`, async () => {
      await open();
      for (const [path, fault] of Object.entries(faults)) server.misbehave(path, fault);
      await page.fill('#address', new URL(address, server.url).href);
      await page.press('#address', 'Enter');
      const message = await failure();
      assert.equal(message.kind, kind);
      assert.match(message.title, title);
      assert.match(message.hint, hint);
      await page.click('#failure-back');
      assert.equal(Object.keys(await shown())[0], 'space');
    });
  }

  it('is loaded from an address, and the built-in one comes back', async () => {
    await open(`?model=/folders/tiny/`);
    await shown();
    assert.match(await page.locator('#facts').innerText(), /Name\s+tiny/);
    await page.click('#builtin');
    await page.waitForFunction(() => document.documentElement.dataset.model === 'gliclass-mini');
    assert.equal(Object.keys(await shown())[0], 'space');
  });

  it('is loaded from a folder on this machine', async () => {
    await open();
    await page.setInputFiles('#folder', new URL('../../tests/data/gliclass-tiny/mt5', import.meta.url).pathname);
    await page.waitForFunction(() => document.documentElement.dataset.model === 'mt5');
    await shown();
    assert.match(await page.locator('#facts').innerText(), /From\s+your folder/);
  });
});

describe('loading', () => {
  it('is cancelled by a button and continued by another', async () => {
    server.misbehave(MODEL, { slow: 60 });
    await page.goto(server.url);
    // Well past the first 16 MiB of the weights, where what has arrived is safe.
    await page.waitForFunction(() => parseFloat(document.querySelector('#loading-bytes').textContent) > 27);
    await page.click('#loading-cancel');
    const { kind, hint } = await failure();
    assert.equal(kind, 'Cancelled');
    assert.match(hint, /continues there/);
    server.behave();
    await page.click('#failure-retry');
    assert.equal(Object.keys(await shown())[0], 'space');
    const asked = server.requests.filter(({ method, path }) => method === 'GET' && path === MODEL);
    assert.match(asked.at(-1).range, /^bytes=\d{7,}-$/);
  });

  it('is not tried in a browser without SIMD', async () => {
    await context.addInitScript(() => (WebAssembly.validate = () => false));
    await page.goto(server.url);
    const { title, text } = await failure();
    assert.match(title, /cannot run the engine/);
    assert.match(text, /WebAssembly SIMD/);
    assert.deepEqual(server.requests.filter(({ path }) => path.includes('/models/') || path.endsWith('.wasm')), []);
  });

  it('on WebGPU says that there is none, and offers the CPU', async () => {
    await open();
    server.requests.length = 0;
    await page.locator('.device').getByText('WebGPU').click();
    const { kind, title, text } = await failure();
    assert.deepEqual([kind, title, text], ['NoAdapter', 'No WebGPU here', 'The browser offers no adapter.']);
    assert.deepEqual(server.requests.filter(({ path }) => path === MODEL), [], 'nothing was downloaded for it');
    await page.click('#failure-cpu');
    assert.equal(Object.keys(await shown())[0], 'space');
    assert.match(await page.locator('#state-text').innerText(), /Ready on the CPU/);
  });

  it('that fails has a message, whatever failed', async () => {
    server.misbehave('/models/gliclass-mini/config.json', { status: 500 });
    await page.goto(server.url);
    assert.match((await failure()).title, /refused \(500\)/);
    server.behave();
    await page.click('#failure-retry');
    await shown();
  });
});

describe('the look', () => {
  it('follows the system, and a person’s choice stays', async () => {
    await page.emulateMedia({ colorScheme: 'dark' });
    await open();
    const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const dark = await paper();
    await page.click('#theme');
    const light = await paper();
    assert.notEqual(light, dark);
    await page.reload();
    assert.equal(await paper(), light);
  });

  it('fits a narrow screen', async () => {
    await page.setViewportSize({ width: 360, height: 740 });
    await open();
    const [inner, scroll] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
    assert.ok(scroll <= inner, `${scroll} wide on ${inner}`);
  });

  it('has names for all controls and enough contrast in both themes', async () => {
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await open();
      const weak = await page.evaluate(contrasts);
      assert.deepEqual(weak, [], colorScheme);
    }
    const nameless = await page.evaluate(() => {
      const named = (control) =>
        control.getAttribute('aria-label') || control.labels?.length > 0 || control.textContent.trim() !== '';
      return [...document.querySelectorAll('button, input, textarea, select')].filter((c) => !named(c)).map((c) => c.outerHTML);
    });
    assert.deepEqual(nameless, []);
  });
});

/** Runs in the page: text whose contrast with what is behind it is under 4.5. */
function contrasts() {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return rgba('white');
  };
  const weak = [];
  for (const element of document.body.querySelectorAll('*')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '');
    if (!own || !element.checkVisibility({ visibilityProperty: true }) || element.closest('.unseen, noscript')) continue;
    const [a, b] = [rgba(getComputedStyle(element).color), behind(element)].map(luminance).sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) weak.push(`${element.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return weak;
}
