import { serve } from '/work/wt/web/web-demo/tests/server.mjs';
import { launch } from '/work/wt/web/web-demo/tests/browser.mjs';
const s = await serve(); const b = await launch();
const c = await b.newContext({ viewport: { width: 1240, height: 900 }, colorScheme: process.argv[2] ?? 'light' });
const p = await c.newPage();
p.on('console', m => console.log('console', m.type(), m.text())); p.on('pageerror', e => console.log('pageerror', e));
const t = Date.now();
await p.goto(s.url + '/');
try { await p.waitForSelector('#bars li', { timeout: 30000 }); console.log('first answer', Date.now() - t, await p.evaluate(() => performance.now())); } catch (e) { console.log(String(e).slice(0,300)); }
console.log(await p.locator('#facts').innerText());
await p.waitForTimeout(800);
await p.screenshot({ path: `/tmp/shot-${process.argv[2] ?? 'light'}.png`, fullPage: true });
console.log(s.requests.map(r => r.method + ' ' + r.path).join('\n'));
await b.close(); await s.close();
