/** `node tests/screenshots.mjs FOLDER`: the pictures of the documentation, from the built page. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { launch } from './browser.mjs';
import { serve } from './server.mjs';

const folder = process.argv[2] ?? '.';
const PICTURES = {
  'web-light.png': { colorScheme: 'light', example: 'Hotel review' },
  'web-dark.png': { colorScheme: 'dark', example: 'News desk' },
};

const [server, browser] = await Promise.all([serve(), launch({ webgpu: true })]);
for (const [name, { colorScheme, example }] of Object.entries(PICTURES)) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 760 }, colorScheme });
  const page = await context.newPage();
  // Where the adapter is software, a person has to ask for it.
  await page.addInitScript(() => localStorage.setItem('dikast-device', 'webgpu'));
  await page.goto(server.url);
  await page.waitForFunction(() => document.querySelector('#state-more').textContent.includes('works offline'), { timeout: 120_000 });
  await page.getByRole('button', { name: example }).click();
  await page.waitForSelector('#bars:not(.stale) li', { timeout: 120_000 });
  // Bars glide to their places.
  await page.waitForTimeout(800);
  writeFileSync(join(folder, name), await page.screenshot({ fullPage: true }));
  await context.close();
}
await browser.close();
await server.close();
