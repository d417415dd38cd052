/** The package's typed questions as a program uses them: answers, typed errors, cancelling, WebGPU. */

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';

import { launch } from './browser.mjs';
import { EVERY_FRAME, MINI_TOLERANCE, TINY_TOLERANCE, difference, mini, tiny } from './decisions.mjs';
import { devices, keepWorkers, tell } from './devices.mjs';
import { png } from './png.mjs';
import { serve } from './server.mjs';

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
  server.requests.length = 0;
  context = await browser.newContext();
  page = await context.newPage();
  server.misbehave('/package/worker/main.js', { prepend: devices() });
  await page.addInitScript(keepWorkers);
  await page.goto(`${server.url}/site/`);
  await page.waitForFunction(() => document.title === 'ready');
});

afterEach(() => context.close());

/** Loads in the page, keeps the model as `window.model`, and gives its facts or the error. */
function load(source, options = {}, kind = 'Decider') {
  return page.evaluate(
    async ([source, options, kind]) => {
      const loading = window.dikast[kind].load(source, options).then((model) => {
        window.model = model;
        return model.info;
      });
      return window.outcome(loading);
    },
    [source, options, kind],
  );
}

/** Text to text; the answer as it came. */
async function ask(body, options = {}) {
  const { value, error } = await page.evaluate(
    (request) => window.outcome(window.model.decideJson(...request)),
    [body, options],
  );
  return { text: value, decision: value && JSON.parse(value), error };
}

const NOUL = { ask: { type: 'noul', instructions: 'Is it?' } };

/** Asks every record of the fixture; their largest difference from the reference. */
async function records() {
  const all = tiny();
  assert.equal(all.length, 18);
  let worst = 0;
  for (const { id, body, options, expected } of all) {
    const { decision, error } = await ask(body, options);
    assert.equal(error, undefined, id);
    assert.equal(decision.usage.input_tokens, expected.n_tokens, id);
    const off = difference(decision, expected);
    assert.ok(off <= TINY_TOLERANCE, `${id}: ${off}`);
    worst = Math.max(worst, off);
  }
  return `18 records: probabilities differ by at most ${worst.toExponential(1)}`;
}

describe('answers on the CPU', () => {
  it('agree with the reference on every record of the fixture', async (test) => {
    server.misbehave('/folders/clef-tiny/processor_config.json', { body: EVERY_FRAME });
    const { value: info } = await load('/folders/clef-tiny/', { backend: 'cpu' });
    assert.deepEqual([info.backend, info.architecture.layers, info.architecture.full_attention_layers], ['cpu', 8, 2]);
    test.diagnostic(await records());
  });

  it('of the built-in model are those expected for text, JSON and a picture', async (test) => {
    const { value: info } = await load('/folders/clef-mini/', { backend: 'cpu' });
    assert.deepEqual([info.name, info.format], ['clef-mini', 'INT8 ConvRot']);
    assert.ok(info.origin.verified, 'the folder has sums');
    for (const id of ['double-charge', 'sensor-json', 'img-dots']) {
      const { body, expected } = mini(id);
      const start = performance.now();
      const { decision } = await ask(body);
      test.diagnostic(`${id}: ${expected.n_tokens} tokens, ${Math.round(performance.now() - start)} ms`);
      assert.equal(decision.usage.input_tokens, expected.n_tokens, id);
      assert.ok(difference(decision, expected) <= MINI_TOLERANCE, `${id}: ${difference(decision, expected)}`);
    }
  });

  it('are the objects of the HTTP API, in request order, with options beside them', async () => {
    await load('/folders/clef-tiny/');
    const request = {
      model: 'any',
      state: ['a', { type: 'image_url', image_url: { url: `data:image/png;base64,${dot()}` } }],
      questions: {
        b: { type: 'score', instructions: 'How?', criteria: ['low', { at: 1 }] },
        a: { type: 'choice', criteria: { z: null, y: 'why' } },
      },
      keep_alive: '5m',
    };
    const { value } = await page.evaluate(
      (request) => window.outcome(window.model.decide(request, { receipt: true, decimals: 2 })),
      request,
    );
    assert.deepEqual(Object.keys(value.answers), ['b', 'a']);
    assert.deepEqual(value.answers.b.legend, { 0: 'low', 1: { at: 1 } });
    assert.deepEqual(Object.keys(value.answers.a.probabilities), ['z', 'y']);
    assert.equal(value.answers.a.probabilities.z, Number(value.answers.a.probabilities.z.toFixed(2)));
    assert.deepEqual([value.model, value.x_receipt.backend, value.usage.output_tokens], ['clef-tiny', 'cpu', 0]);
    assert.ok(value.x_timing.engine_ms > 0);
  });
});

describe('a request that is not allowed', () => {
  const questions = JSON.stringify(NOUL);
  const many = JSON.stringify(Array(5).fill(dot()));
  const heavy = Buffer.alloc((4 << 20) + 3).toString('base64');
  /** What is wrong → the body, the error. */
  const wrong = {
    'is no JSON': ['{"state": ', { kind: 'InvalidRequest', field: 'request' }],
    'has no state': [`{"questions":${questions}}`, { kind: 'InvalidRequest', field: 'state' }],
    'has a null state, as over HTTP': [`{"state":null,"questions":${questions}}`, { kind: 'InvalidRequest', field: 'state' }],
    'has no questions': ['{"state":"x","questions":{}}', { kind: 'InvalidRequest', field: 'questions' }],
    'asks for another type': ['{"state":"x","questions":{"a":{"type":"box"}}}', { kind: 'InvalidRequest', field: 'questions.a.type' }],
    'has too many pictures': [`{"state":"x","questions":${questions},"images":${many}}`, { kind: 'TooLarge', what: 'images', limit: 4, actual: 5 }],
    'has too large a picture': [`{"state":"x","questions":${questions},"images":["${heavy}"]}`, { kind: 'TooLarge', what: 'bytes of images[0]' }],
    'has a picture that is none': [`{"state":"x","questions":${questions},"images":["QUJD"]}`, { kind: 'InvalidRequest', field: 'images[0]' }],
    'has a picture elsewhere': [`{"state":"x","questions":${questions},"images":["https://a/b.png"]}`, { kind: 'InvalidRequest', field: 'images[0]' }],
    'has too long a state': [
      `{"state":"${'1 '.repeat(20000)}","questions":${questions}}`,
      { kind: 'TooLarge', what: 'tokens of state, questions and media', limit: 4096 },
    ],
  };

  it('is a typed error that names what is wrong, and the next request is answered', async () => {
    await load('/folders/clef-tiny/', { backend: 'cpu' });
    for (const [name, [body, expected]] of Object.entries(wrong)) {
      const { error } = await ask(body);
      assert.ok(error?.typed, name);
      for (const [key, value] of Object.entries(expected)) assert.deepEqual(error[key], value, `${name}: ${error.message}`);
    }
    const { error } = await ask(`{"state":"x","questions":${questions}}`, { confidence: 'sure' });
    assert.deepEqual([error.kind, error.field], ['InvalidRequest', 'confidence']);
    assert.ok((await ask(`{"state":"x","questions":${questions}}`)).decision.answers.ask.noul >= 0);
  });

  it('has no JSON form', async () => {
    await load('/folders/clef-tiny/', { backend: 'cpu' });
    const { error } = await page.evaluate(() => window.outcome(window.model.decide({ state: 1n, questions: {} })));
    assert.deepEqual([error.typed, error.kind, error.field], [true, 'InvalidRequest', 'request']);
  });
});

describe('another kind of model', () => {
  for (const [kind, source] of [['Decider', '/folders/mini/'], ['Classifier', '/folders/clef-mini/']]) {
    it(`${kind}: is refused before its weights`, async () => {
      const { error } = await load(source, {}, kind);
      assert.deepEqual([error.typed, error.kind], [true, 'Unsupported'], error.message);
      assert.deepEqual(server.requests.filter(({ path }) => path.endsWith('.safetensors')), []);
    });
  }
});

describe('cancelling', () => {
  it('leaves the last of quick requests, gives up the queue, and ends with disposing', async () => {
    await load('/folders/clef-tiny/', { backend: 'cpu' });
    const kinds = await page.evaluate(async (questions) => {
      const outcomes = [];
      let controller;
      for (let i = 0; i < 10; i++) {
        controller?.abort();
        controller = new AbortController();
        outcomes.push(window.outcome(window.model.decide({ state: `Request ${i}`, questions }, { signal: controller.signal })));
      }
      const quick = await Promise.all(outcomes);
      const waiting = ['a', 'b'].map((state) => window.outcome(window.model.decide({ state, questions })));
      window.model.cancel();
      const after = await window.outcome(window.model.decide({ state: 'c', questions }));
      window.model.dispose();
      const disposed = await window.outcome(window.model.decide({ state: 'd', questions }));
      return [...quick, ...(await Promise.all(waiting)), after, disposed].map(({ error }) => error?.kind ?? 'answered');
    }, NOUL);
    const given = 'Cancelled';
    assert.deepEqual(kinds, [...Array(9).fill(given), 'answered', given, given, 'answered', given]);
  });
});

describe('WebGPU', () => {
  it('agrees with the reference on every record, and a lost device is opened anew within the request', async (test) => {
    server.misbehave('/folders/clef-tiny/processor_config.json', { body: EVERY_FRAME });
    let start = performance.now();
    const { value: info, error } = await load('/folders/clef-tiny/', { backend: 'webgpu' });
    assert.equal(error, undefined);
    assert.equal(info.backend, 'webgpu');
    test.diagnostic(`loaded in ${Math.round(performance.now() - start)} ms`);
    start = performance.now();
    test.diagnostic(`${await records()}, ${Math.round(performance.now() - start)} ms`);
    const { body, options } = tiny().find(({ id }) => id === 'image_one');
    const before = await ask(body, options);
    assert.equal(await tell(page, { destroy: true }), 1);
    assert.equal((await ask(body, options)).text, before.text);
    assert.equal(await tell(page, {}), 2, 'devices');
  });

  // The software adapter needs minutes for it on a busy machine: only where it is asked for.
  const skip = process.env.WEBGPU_MINI === undefined;
  it('answers with the built-in model, INT8', { skip }, async (test) => {
    const { error } = await load('/folders/clef-mini/', { backend: 'webgpu' });
    assert.equal(error, undefined);
    const { body, expected } = mini('double-charge');
    const start = performance.now();
    const { decision } = await ask(body);
    test.diagnostic(`${Math.round(performance.now() - start)} ms`);
    assert.ok(difference(decision, expected) <= MINI_TOLERANCE, `${difference(decision, expected)}`);
  });
});

/** A small picture, base64. */
function dot() {
  return png(64, 64, Buffer.alloc(64 * 64 * 3, 200)).toString('base64');
}
