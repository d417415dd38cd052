/** The page's tab of typed questions as a person uses it. */

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';

import { launch } from './browser.mjs';
import { MINI_TOLERANCE, difference, mini, picture } from './decisions.mjs';
import { serve } from './server.mjs';

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
  context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
  page = await context.newPage();
  complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  await page.goto(`${server.url}/#questions`);
});

afterEach(async () => {
  await context.close();
  assert.deepEqual(complaints, [], 'nothing was thrown past the page');
});

/** What the page shows for these questions: id → option → probability. */
async function answered(...ids) {
  await page.waitForFunction(
    (ids) => {
      const list = document.querySelector('#d-answers:not([hidden]):not(.stale)');
      const found = [...(list?.children ?? [])].map(({ dataset }) => dataset.id);
      return ids.join() === found.join();
    },
    ids,
    { timeout: 30_000 },
  );
  const cards = await page.locator('#d-answers > li').evaluateAll((cards) =>
    cards.map((card) => [
      card.dataset.id,
      [...card.querySelectorAll('.bars li')].map(({ dataset }) => [dataset.option, Number(dataset.probability)]),
    ]),
  );
  return Object.fromEntries(cards.map(([id, bars]) => [id, Object.fromEntries(bars)]));
}

/** What is shown, in the form of a response. */
function asDecision(shown, expected) {
  const answers = {};
  for (const { question_id, question_type } of expected.questions) {
    const bars = shown[question_id];
    answers[question_id] =
      question_type === 0
        ? { type: 'noul', noul: bars.yes }
        : { type: 'choice', probabilities: question_type === 1 ? bars : Object.fromEntries(Object.entries(bars).map(([name, p]) => [name.split(' ')[0], p])) };
  }
  return { answers };
}

/** Replaces all questions. */
async function questions(asked) {
  while ((await page.locator('.question').count()) > 0) await page.getByRole('button', { name: 'Remove this question' }).first().click();
  for (const [id, kind, text, lines] of asked) {
    await page.click('#d-add');
    const card = page.locator('.question').last();
    await card.getByLabel('Name of the question').fill(id);
    await card.getByLabel('Type of the question').selectOption(kind);
    await card.getByLabel('Question', { exact: true }).fill(text);
    if (lines) await card.locator('textarea').fill(lines);
  }
}

describe('typed questions', () => {
  it('are answered as expected for a text, with bars, and need no network the second time', async () => {
    const { expected } = mini('double-charge');
    const shown = await answered('refund', 'team', 'urgency');
    assert.ok(difference(asDecision(shown, expected), expected) <= MINI_TOLERANCE, JSON.stringify(shown));
    assert.match(await page.locator('#d-timing').innerText(), /351 tokens · CPU/);
    assert.match(await page.locator('#facts').innerText(), /INT8 ConvRot/);
    assert.deepEqual(server.requests.filter(({ path }) => path.includes('gliclass')), [], 'the other model was not needed');
    await page.waitForFunction(() => document.querySelector('#state-more').textContent.includes('works offline'));
    await context.setOffline(true);
    const before = server.requests.length;
    await page.reload();
    assert.deepEqual(await answered('refund', 'team', 'urgency'), shown);
    assert.match(await page.locator('#facts').innerText(), /kept in this browser from an earlier visit/);
    // The browser itself looks for a newer service worker; the page does not wait for it.
    const asked = server.requests.slice(before).filter(({ path }) => path !== '/sw.js');
    assert.deepEqual(asked, [], 'nothing was asked for');
  });

  it('are answered for JSON and for a picture, edited in the form', async () => {
    await answered('refund', 'team', 'urgency');
    const json = mini('sensor-json');
    const { state, questions: asked } = JSON.parse(json.body);
    await page.getByText('JSON', { exact: true }).click();
    await page.fill('#d-state', JSON.stringify(state));
    await questions(Object.entries(asked).map(formed));
    let shown = await answered(...Object.keys(asked));
    assert.ok(difference(asDecision(shown, json.expected), json.expected) <= MINI_TOLERANCE, JSON.stringify(shown));

    const dots = mini('img-dots');
    const record = JSON.parse(dots.body);
    await page.getByText('Text', { exact: true }).last().click();
    await page.fill('#d-state', record.state);
    await page.setInputFiles('#d-picture', picture('five_dots.png'));
    await questions(Object.entries(record.questions).map(formed));
    shown = await answered(...Object.keys(record.questions));
    assert.ok(difference(asDecision(shown, dots.expected), dots.expected) <= MINI_TOLERANCE, JSON.stringify(shown));
  });

  it('come with examples: a picture, and the response behind the bars', async () => {
    const { expected } = mini('img-sun');
    await answered('refund', 'team', 'urgency');
    await page.getByRole('button', { name: 'Picture', exact: true }).click();
    const shown = await answered('color', 'shape');
    assert.ok(difference(asDecision(shown, expected), expected) <= MINI_TOLERANCE, JSON.stringify(shown));
    assert.equal(await page.locator('#d-pictures li').count(), 1);
    await page.getByText('Response as JSON').click();
    const response = JSON.parse(await page.locator('#d-response').innerText());
    assert.deepEqual([response.answers.color.choice, response.answers.shape.choice], ['yellow', 'circle']);
    assert.equal(response.answers.color.probabilities.yellow, shown.color.yellow);
  });

  it('are copied as curl and as TypeScript', async () => {
    await answered('refund', 'team', 'urgency');
    await page.click('#d-copy-curl');
    const curl = await page.evaluate(() => navigator.clipboard.readText());
    const body = JSON.parse(curl.slice(curl.indexOf('\n') + 1, curl.lastIndexOf('\nJSON')));
    assert.equal(body.model, 'clef-mini');
    assert.deepEqual(body.questions.refund, { type: 'noul', instructions: 'Is the customer asking for a refund?' });
    assert.equal(body.questions.urgency.criteria.length, 3);
    await page.click('#d-copy-typescript');
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /Decider\.load\('\/models\/clef-mini\/'\)/);
  });

  it('that cannot be asked say why', async () => {
    await answered('refund', 'team', 'urgency');
    await page.getByText('JSON', { exact: true }).click();
    await page.waitForSelector('#d-placeholder:not([hidden])');
    assert.match(await page.locator('#d-placeholder').innerText(), /This is not JSON/);
    await page.getByText('Text', { exact: true }).last().click();
    await answered('refund', 'team', 'urgency');
    await page.fill('#d-state', 'far too long '.repeat(9000));
    await page.waitForSelector('#d-failure:not([hidden])');
    assert.match(await page.locator('#d-failure-title').innerText(), /Too long for this model/);
    await page.fill('#d-state', 'short');
    await page.setInputFiles('#d-picture', Array(5).fill(picture('sun.png')));
    await page.waitForFunction(() => document.querySelector('#d-failure-title').textContent === 'Too many pictures');
    await page.setInputFiles('#d-picture', { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('x') });
    assert.match(await page.locator('#d-picture-note').innerText(), /notes\.txt is no picture/);
  });
});

describe('the tabs', () => {
  it('load each model when it is first seen, and fit a narrow screen', async () => {
    await page.setViewportSize({ width: 360, height: 740 });
    await answered('refund', 'team', 'urgency');
    const [inner, scroll] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
    assert.ok(scroll <= inner, `${scroll} wide on ${inner}`);
    await page.click('#tab-labels');
    await page.waitForSelector('#bars:not([hidden]):not(.stale) li', { timeout: 30_000 });
    assert.match(await page.locator('#facts').innerText(), /gliclass-mini/);
    for (const [tab, field] of [['labels', 'text'], ['questions', 'd-state']]) {
      await page.click(`#tab-${tab}`);
      await page.locator('.skip').focus();
      await page.keyboard.press('Enter');
      assert.equal(await page.evaluate(() => document.activeElement.id), field);
    }
    await page.click('#tab-questions');
    await answered('refund', 'team', 'urgency');
    assert.match(await page.locator('#facts').innerText(), /clef-mini/);
  });
});

/** A question of a request as a row of the form. */
function formed([id, { type, instructions, criteria }]) {
  const option = ([name, text]) => (text === null ? name : `${name}: ${text}`);
  const lines = type === 'choice' ? Object.entries(criteria).map(option) : (criteria ?? []);
  return [id, type, instructions, type === 'noul' ? '' : lines.join('\n')];
}
