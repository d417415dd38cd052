/** `node tests/screenshots.mjs FOLDER`: the pictures of the documentation, from the built page. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { launch } from './browser.mjs';
import { serve } from './server.mjs';

const folder = process.argv[2] ?? '.';
/** The built-in model of the questions takes minutes on a software adapter: on the processor. */
const PICTURES = {
  'web-light.png': { colorScheme: 'light', example: 'Hotel review' },
  'web-dark.png': { colorScheme: 'dark', example: 'News desk' },
  'web-questions.png': { colorScheme: 'light', example: 'Picture', tab: '#questions', device: 'cpu' },
};

const [server, browser] = await Promise.all([serve(), launch({ webgpu: true })]);
for (const [name, { colorScheme, example, tab = '', device = 'webgpu' }] of Object.entries(PICTURES)) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 760 }, colorScheme });
  const page = await context.newPage();
  // Where the adapter is software, a person has to ask for it.
  await page.addInitScript((device) => localStorage.setItem('dikast-device', device), device);
  await page.goto(`${server.url}/${tab}`);
  await page.waitForFunction(() => document.querySelector('#state-more').textContent.includes('works offline'), { timeout: 120_000 });
  await page.locator('.examples').getByRole('button', { name: example }).click();
  const bars = tab === '' ? '#bars' : '#d-answers';
  await page.waitForSelector(`${bars}:not([hidden]):not(.stale) li`, { timeout: 120_000 });
  // Bars glide to their places.
  await page.waitForTimeout(800);
  writeFileSync(join(folder, name), await page.screenshot({ fullPage: true }));
  await context.close();
}
await browser.close();
await server.close();
