/** The package as a program uses it: answers, typed errors, cancelling, restarting. */

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';

import { launch } from './browser.mjs';
import { CASES, TOLERANCE } from './goldens.mjs';
import { serve } from './server.mjs';

let server, browser, context, page;

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
  await page.goto(`${server.url}/site/`);
  await page.waitForFunction(() => document.title === 'ready');
});

afterEach(() => context.close());

/** Loads in the page, keeps the model as `window.model`, and gives its facts or the error. */
function load(source, options = {}) {
  return page.evaluate(
    async ([source, options]) => {
      const loading = window.dikast.Classifier.load(source, options).then((model) => {
        window.model = model;
        return model.info;
      });
      return window.outcome(loading);
    },
    [source, options],
  );
}

function classify(text, labels, options = {}) {
  return page.evaluate(
    (request) => window.outcome(window.model.classify(...request)),
    [text, labels, options],
  );
}

function fetched(file) {
  return server.requests.filter(({ method, path }) => method === 'GET' && path.endsWith(file));
}

describe('answers', () => {
  it('agree with the reference in every score', async () => {
    const { value: info } = await load('/folders/mini/');
    assert.equal(info.name, 'mini');
    assert.equal(info.backend, 'cpu');
    assert.equal(info.architecture.layers, 6);
    for (const { text, labels, sigmoid, softmax, top } of CASES) {
      for (const [multi_label, expected] of [
        [true, sigmoid],
        [false, softmax],
      ]) {
        const { value: answer } = await classify(text, labels, { multi_label });
        assert.deepEqual(answer.scores.map(({ label }) => label), labels);
        for (const [i, { score }] of answer.scores.entries()) {
          assert.ok(Math.abs(score - expected[i]) <= TOLERANCE, `${text}: ${labels[i]}: ${score}, ${expected[i]}`);
        }
        if (!multi_label) assert.equal(answer.predictions[0].label, top);
      }
    }
  });

  it('take hierarchies and options, and come with a receipt', async () => {
    await load('/folders/mini/');
    const labels = { topic: ['space', 'sports'], tone: 'dry' };
    const { value } = await classify('NASA launched a spacecraft to study Mars.', labels, { threshold: 0.25 });
    assert.deepEqual(value.scores.map(({ label }) => label), ['topic.space', 'topic.sports', 'tone.dry']);
    assert.equal(value.threshold, 0.25);
    assert.equal(value.receipt.backend, 'cpu');
    assert.ok(value.receipt.tokens > 10 && value.timing.engine_ms > 0);
  });

  it('come from picked files too, whose sums are checked', async () => {
    const pick = (sums) =>
      page.evaluate(async (sums) => {
        const files = [];
        for (const name of ['config.json', 'tokenizer.json', 'model.safetensors']) {
          const body = await (await fetch(`/folders/tiny/${name}`)).blob();
          files.push(new File([body], name));
        }
        if (sums) files.push(new File([sums], 'SHA256SUMS'));
        return window.outcome(window.dikast.Classifier.load(files).then((model) => model.info));
      }, sums);
    const { value } = await pick();
    assert.deepEqual([value.origin.from, value.origin.verified], ['files', false]);
    const { error } = await pick(`${'0'.repeat(64)}  config.json\n`);
    assert.deepEqual([error.kind, error.place], ['WrongSum', 'config.json']);
  });
});

describe('progress', () => {
  it('rises to the whole, in bytes', async () => {
    server.misbehave('/folders/mini/model.safetensors', { slow: 2 });
    const seen = await page.evaluate(async () => {
      const seen = [];
      await window.dikast.Classifier.load('/folders/mini/', { progress: (progress) => seen.push(progress) });
      return seen;
    });
    assert.ok(seen.length > 5, `${seen.length} reports`);
    assert.equal(seen[0].stage, 'program');
    assert.equal(seen.at(-1).stage, 'prepare');
    const { done, total } = seen.at(-1);
    assert.equal(done, total);
    assert.ok(total > 44e6);
    const dones = seen.map((progress) => progress.done);
    assert.deepEqual(dones, dones.toSorted((a, b) => a - b));
  });
});

describe('a source that is no model', () => {
  /** What is at the address → the error. */
  const wrong = {
    'nothing answers': ['http://localhost:9/', {}, { kind: 'Unreachable', url: 'http://localhost:9/config.json' }],
    'a folder that is not there': ['/folders/none/', {}, { kind: 'HttpStatus', status: 404 }],
    'a server that refuses': ['/folders/tiny/', { '/folders/tiny/config.json': { status: 403 } }, { kind: 'HttpStatus', status: 403 }],
    'a web page': ['/folders/tiny/', { '/folders/tiny/*': { page: true } }, { kind: 'NotACheckpoint', found: 'a web page' }],
    'a web page by another name': [
      '/folders/tiny/',
      { '/folders/tiny/config.json': { body: '\n<!DOCTYPE html><title>Sign in</title>' } },
      { kind: 'NotACheckpoint', found: 'a web page' },
    ],
    'a pointer to the weights': [
      '/folders/tiny/',
      { '/folders/tiny/model.safetensors': { body: 'version https://git-lfs.github.com/spec/v1\n' } },
      { kind: 'NotACheckpoint', found: 'a Git LFS pointer' },
    ],
    'a file that breaks off each time': [
      '/folders/tiny/',
      { '/folders/tiny/tokenizer.json': { cut: 1000 } },
      { kind: 'Truncated', actual: 1000 },
    ],
    'a file that was saved too short': [
      '/folders/tiny/',
      { '/folders/tiny/model.safetensors': { short: 5000 } },
      { kind: 'Checkpoint', item: 'model.safetensors' },
    ],
    'another sum than published': [
      '/folders/tiny/',
      { '/folders/tiny/SHA256SUMS': { body: `${'0'.repeat(64)}  tokenizer.json\n` } },
      { kind: 'WrongSum', expected: '0'.repeat(64) },
    ],
    'damaged sums': ['/folders/tiny/', { '/folders/tiny/SHA256SUMS': { body: 'abc\n' } }, { kind: 'Checkpoint', item: 'SHA256SUMS' }],
    'something that is not JSON': [
      '/folders/tiny/',
      { '/folders/tiny/config.json': { body: '{"model_type":' } },
      { kind: 'Checkpoint', item: 'config.json' },
    ],
    'an address that is none': ['http://', {}, { kind: 'InvalidRequest', field: 'source' }],
    'an address of another kind': ['ftp://localhost/', {}, { kind: 'InvalidRequest', field: 'source' }],
  };
  for (const [what, [source, faults, expected]] of Object.entries(wrong)) {
    it(what, async () => {
      for (const [path, fault] of Object.entries(faults)) server.misbehave(path, fault);
      const { error } = await load(source);
      assert.ok(error?.typed, 'a DikastError');
      for (const [key, value] of Object.entries(expected)) assert.equal(error[key], value, `${key}: ${error.message}`);
    });
  }

  it('another architecture, found out before the weights', async () => {
    const { error } = await load('/folders/other-architecture/');
    assert.equal(error.kind, 'Unsupported');
    assert.match(error.need, /modernbert/i);
    assert.deepEqual(fetched('model.safetensors'), []);
  });

  it('an empty folder', async () => {
    const { error } = await page.evaluate(() => window.outcome(window.dikast.Classifier.load([])));
    assert.deepEqual([error.kind, error.item], ['Checkpoint', 'config.json']);
  });

  it('a manifest that the server does not keep', async () => {
    const sha256 = 'f'.repeat(64);
    const files = { 'config.json': { bytes: 10, sha256 }, 'tokenizer.json': { bytes: 10, sha256 } };
    const { error } = await load({ base: '/folders/tiny/', manifest: { files } });
    assert.deepEqual([error.kind, error.expected], ['WrongSum', sha256]);
  });
});

describe('a request that cannot be answered', () => {
  const many = Array.from({ length: 4097 }, (_, i) => `label ${i}`);
  const wrong = {
    'labels over the limit': [['t', many], { kind: 'TooLarge', what: 'labels', limit: 4096 }],
    'the same label twice': [['t', ['a', 'b', 'a']], { kind: 'InvalidRequest', field: 'labels[2]' }],
    'no labels': [['t', []], { kind: 'InvalidRequest', field: 'labels' }],
    'a field that is none': [['t', ['a'], { treshold: 1 }], { kind: 'InvalidRequest', field: 'request' }],
    'a threshold over 1': [['t', ['a'], { threshold: 2 }], { kind: 'InvalidRequest', field: 'threshold' }],
    'a text over the limit': [['word '.repeat(3000), ['a']], { kind: 'TooLarge', limit: 1024 }],
  };
  it('has its own error, and the next one is answered', async () => {
    await load('/folders/tiny/');
    for (const [what, [request, expected]] of Object.entries(wrong)) {
      const { error } = await classify(...request);
      assert.ok(error?.typed, what);
      for (const [key, value] of Object.entries(expected)) assert.equal(error[key], value, `${what}: ${error.message}`);
    }
    assert.equal((await classify('t', ['a', 'b'])).value.scores.length, 2);
  });
});

describe('the cache', () => {
  for (const cache of ['opfs', 'cache-storage']) {
    it(`${cache}: gives everything the second time`, async () => {
      const { value: first } = await load('/folders/mini/', { cache });
      assert.deepEqual([first.origin.from, first.origin.cached], ['network', cache]);
      const { value: second } = await load('/folders/mini/', { cache });
      assert.deepEqual([second.origin.from, second.origin.fetched_bytes], ['cache', 0]);
      assert.equal(fetched('model.safetensors').length, 1);
    });
  }

  it('can be switched off and cleared', async () => {
    await load('/folders/tiny/', { cache: 'none' });
    assert.equal((await load('/folders/tiny/')).value.origin.from, 'network');
    await page.evaluate(() => window.dikast.clearCache());
    assert.equal((await load('/folders/tiny/')).value.origin.from, 'network');
    assert.equal((await load('/folders/tiny/')).value.origin.from, 'cache');
  });

  it('is not used for a file that changed on the server', async () => {
    await load('/folders/tiny/');
    server.misbehave('/folders/tiny/tokenizer.json', { append: '\n' });
    const { value } = await load('/folders/tiny/');
    assert.equal(value.origin.from, 'mixed');
    assert.equal(fetched('tokenizer.json').length, 2);
    assert.equal(fetched('model.safetensors').length, 1);
  });

  it('goes on without a place to write', async () => {
    const { value } = await page.evaluate(async () => {
      // Another tab that holds every file of this checkpoint.
      await window.dikast.Classifier.load('/folders/tiny/');
      const root = await (await navigator.storage.getDirectory()).getDirectoryHandle('dikast-models');
      for await (const folder of root.values()) for await (const name of folder.keys()) await folder.removeEntry(name);
      const block = new Blob([
        `onmessage = async () => {
           const root = await (await navigator.storage.getDirectory()).getDirectoryHandle('dikast-models');
           for await (const folder of root.values()) {
             const file = await folder.getFileHandle('config.json', { create: true });
             self.held = await file.createSyncAccessHandle();
           }
           postMessage('held');
         };`,
      ]);
      window.holder = new Worker(URL.createObjectURL(block));
      await new Promise((resolve) => {
        window.holder.onmessage = resolve;
        window.holder.postMessage('hold');
      });
      return window.outcome(window.dikast.Classifier.load('/folders/tiny/').then((model) => model.info));
    });
    assert.equal(value.origin.from, 'network');
  });
});

describe('a connection that breaks off', () => {
  it('once is continued where it stopped', async () => {
    server.misbehave('/folders/mini/model.safetensors', { cut: 20e6, once: true });
    const { value } = await load('/folders/mini/');
    assert.equal(value.weight_bytes, 42505860);
    const ranges = fetched('model.safetensors').map(({ range }) => range);
    assert.equal(ranges.length, 2);
    assert.match(ranges[1], /^bytes=\d{7,}-$/);
  });
});

describe('cancelling', () => {
  it('during loading rejects at once, and the next attempt goes on from there', async () => {
    server.misbehave('/folders/mini/model.safetensors', { slow: 4 });
    const { error } = await page.evaluate(() => {
      const controller = new AbortController();
      const progress = ({ done }) => done > 20e6 && controller.abort();
      return window.outcome(window.dikast.Classifier.load('/folders/mini/', { signal: controller.signal, progress }));
    });
    assert.equal(error.kind, 'Cancelled');
    server.behave();
    const { value } = await load('/folders/mini/');
    assert.ok(value.origin.fetched_bytes < 30e6, `${value.origin.fetched_bytes} fetched again`);
    assert.match(fetched('model.safetensors').at(-1).range, /^bytes=\d{7,}-$/);
    const { text, labels, sigmoid } = CASES[0];
    const { value: answer } = await classify(text, labels);
    assert.ok(Math.abs(answer.scores[0].score - sigmoid[0]) <= TOLERANCE);
  });

  it('of 30 quick requests leaves the last', async () => {
    await load('/folders/mini/');
    const outcomes = await page.evaluate(async () => {
      const outcomes = [];
      let controller;
      for (let i = 1; i <= 30; i++) {
        controller?.abort();
        controller = new AbortController();
        const text = `Request number ${i} about football`;
        outcomes.push(window.outcome(window.model.classify(text, ['sports', 'food'], { signal: controller.signal })));
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      const last = await window.outcome(window.model.classify('Request number 30 about football', ['sports', 'food']));
      return [...(await Promise.all(outcomes)), last];
    });
    const again = outcomes.pop();
    const kinds = outcomes.map(({ error }) => error?.kind ?? 'answered');
    assert.equal(kinds.at(-1), 'answered');
    assert.deepEqual(outcomes.at(-1).value.scores, again.value.scores);
    assert.ok(kinds.slice(0, -1).filter((kind) => kind === 'Cancelled').length >= 15, kinds.join());
  });

  it('of everything, and disposing', async () => {
    await load('/folders/tiny/');
    const kinds = await page.evaluate(async () => {
      const waiting = ['a', 'b', 'c'].map((text) => window.outcome(window.model.classify(text, ['x'])));
      window.model.cancel();
      const after = await window.outcome(window.model.classify('d', ['x']));
      window.model.dispose();
      const disposed = await window.outcome(window.model.classify('e', ['x']));
      return [...(await Promise.all(waiting)), after, disposed].map(({ error }) => error?.kind);
    });
    assert.deepEqual(kinds, ['Cancelled', 'Cancelled', 'Cancelled', undefined, 'Cancelled']);
  });
});

describe('a crash of the engine', () => {
  it('is a typed error, and the next request starts it again', async () => {
    const once = `
      const { answer } = Model.prototype;
      Model.prototype.answer = function (request, options) {
        if (!request.includes('crash')) return answer.call(this, request, options);
        self.dikastPanic = 'panicked at the test';
        throw new WebAssembly.RuntimeError('unreachable');
      };`;
    server.misbehave('/package/wasm/dikast_web.js', { append: once });
    await load('/folders/tiny/');
    const { error } = await classify('crash', ['a']);
    assert.deepEqual([error.kind, error.detail], ['Crashed', 'panicked at the test']);
    assert.equal((await classify('go on', ['a'])).value.scores.length, 1);
  });

  it('that cannot even start is one too', async () => {
    server.misbehave('/package/worker/main.js', { status: 404 });
    const { error } = await load('/folders/tiny/');
    assert.equal(error.kind, 'Crashed');
    server.behave();
    server.misbehave('/package/wasm/dikast_web_bg.wasm', { status: 404 });
    assert.ok((await load('/folders/tiny/')).error.typed);
  });
});

describe('a browser without a WebGPU adapter', () => {
  it('answers on the CPU, and says why', async () => {
    const { value } = await load('/folders/tiny/', { backend: 'auto' });
    assert.deepEqual([value.backend, value.reason], ['cpu', 'no WebGPU: the browser offers no adapter']);
  });

  it('refuses WebGPU by name before anything is downloaded', async () => {
    server.requests.length = 0;
    const { error } = await load('/folders/tiny/', { backend: 'webgpu' });
    assert.deepEqual([error.typed, error.kind], [true, 'NoAdapter']);
    assert.deepEqual(server.requests.filter(({ path }) => path.startsWith('/folders/')), []);
  });
});

describe('a browser without what is needed', () => {
  it('is told so before anything is downloaded', async () => {
    server.requests.length = 0;
    const { error } = await page.evaluate(() => {
      WebAssembly.validate = () => false;
      return window.outcome(window.dikast.Classifier.load('/folders/tiny/'));
    });
    assert.deepEqual([error.kind, error.need], ['Unsupported', 'WebAssembly SIMD']);
    assert.deepEqual(server.requests, []);
  });
});
