// Opens the page in headless Chromium with every scenario of serve.mjs, at 360 px and 1400 px, dark and light, and fails on
// console errors, missing texts, elements that a state injected, text of low contrast, a page wider than the screen, and slow updates.
//   node check.mjs FOLDER [SCENARIO...]      writes screenshots to FOLDER; CHROMIUM names the program (default: chromium)
// Needs Node 20 and Chromium, nothing else: it speaks DevTools' protocol over a pipe.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serve } from './serve.mjs';

const EXPECT = { // texts that must be visible
  healthy: ['Healthy', 'All 3 replicas answer', 'cluster ', 'live', 'leads', 'Requests', 'Events', 'kill the leader'],
  old: ['Healthy', 'nothing to show yet'],
  killed: ['It works, with', '2 of 3 replicas answer', 'killed', 'is lost', 'leads now', 'is not connected', 'It was killed: restart it', 'No progress for about'],
  byzantine: ['Suspect:', 'did what no honest replica does', 'different proposals to different replicas', 'Problem at r4'],
  transfer: ['Fetches the checkpoint of seq 60,000', 'fetches a checkpoint', 'Its certificate expires in 12 days', 'full: writes are refused', 'begins to fetch'],
  large: ['63 of 64 replicas answer', 'is not connected', 'Replica 64', 'learner', 'Instances'],
  hostile: ['<img src=x onerror=', 'Replica 2', 'Diverged'],
  down: ['Not serving', '2 voters are needed', 'paused', 'ended', 'Its process ended: its certificate is for replica 3. Do what that says, and restart it.'],
  full: ['Writes are refused: too few disks have room', 'Free space on the disks of r2, r3.', 'Problem at r1 to r3: r4 did what'],
};
const NEVER = { full: ['It works, with', 'No longer:'] }; // texts that must not be there
const ONCE = ['full']; // scenarios with nothing new to see in other sizes and colours
const [folder = join(tmpdir(), 'quorate-page'), ...only] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const profile = mkdtempSync(join(tmpdir(), 'quorate-chromium-'));
const chromium = spawn(process.env.CHROMIUM ?? 'chromium', ['--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--remote-debugging-pipe', `--user-data-dir=${profile}`, 'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
const waiting = new Map(), listeners = [];
let last = 0, unread = '', failed = 0;
chromium.stdio[4].on('data', data => {
  const parts = (unread + data).split('\0');
  unread = parts.pop();
  for (const part of parts) {
    const m = JSON.parse(part);
    if (m.id) { const { done, fail } = waiting.get(m.id); waiting.delete(m.id); m.error ? fail(new Error(m.error.message)) : done(m.result); } else for (const l of listeners) l(m);
  }
});
const send = (method, params = {}, sessionId) => new Promise((done, fail) => { waiting.set(++last, { done, fail }); chromium.stdio[3].write(JSON.stringify({ id: last, method, params, sessionId }) + '\0'); });
const sleep = ms => new Promise(done => setTimeout(done, ms));
const check = (name, good, more = '') => { if (!good) { failed++; console.log(`FAILED  ${name} ${more}`); } };

async function open(url, width, theme, name) {
  const { targetId } = await send('Target.createTarget', { url: 'about:blank' }), { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true });
  const tab = { errors: [], send: (method, params) => send(method, params, sessionId), close: () => send('Target.closeTarget', { targetId }) };
  listeners.push(m => {
    if (m.sessionId !== sessionId) return;
    if (m.method === 'Runtime.exceptionThrown') tab.errors.push(m.params.exceptionDetails.exception?.description ?? m.params.exceptionDetails.text);
    if (m.method === 'Log.entryAdded' && ['error', 'warning'].includes(m.params.entry.level)) tab.errors.push(m.params.entry.text);
    if (m.method === 'Runtime.consoleAPICalled' && m.params.type === 'error') tab.errors.push(JSON.stringify(m.params.args));
  });
  tab.value = async expression => { const r = await tab.send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true }); if (r.exceptionDetails) throw new Error(r.exceptionDetails.exception?.description); return r.result.value; };
  tab.until = async (expression, ms = 15000) => { const end = Date.now() + ms; while (!await tab.value(expression).catch(() => false)) { if (Date.now() > end) { check(name, false, 'waited in vain for ' + expression); return; } await sleep(50); } };
  tab.picture = async (file, full = true) => {
    const height = full ? Math.min(6000, await tab.value('document.documentElement.scrollHeight')) : 900;
    await tab.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: width < 600 ? 2 : 1, mobile: width < 600 });
    await sleep(250);
    writeFileSync(join(folder, file + '.png'), Buffer.from((await tab.send('Page.captureScreenshot', {})).data, 'base64'));
    await tab.send('Emulation.setDeviceMetricsOverride', { width, height: 900, deviceScaleFactor: width < 600 ? 2 : 1, mobile: width < 600 });
  };
  for (const domain of ['Page', 'Runtime', 'Log', 'Performance']) await tab.send(domain + '.enable');
  await tab.send('Emulation.setDeviceMetricsOverride', { width, height: 900, deviceScaleFactor: width < 600 ? 2 : 1, mobile: width < 600 });
  await tab.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: theme }] });
  await tab.send('Page.navigate', { url });
  return tab;
}
// Texts whose contrast with what is behind them is below 4.5, and buttons and links without a name.
const AUDIT = `(() => {
  const rgb = c => (c.match(/[\\d.]+/g) || []).map(Number), lum = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > .5) return c.slice(0, 3); } return [255, 255, 255]; };
  const out = [];
  for (const e of document.body.querySelectorAll('*')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest('script, svg, [aria-disabled=true]')) continue;
    const a = lum(rgb(getComputedStyle(e).color).slice(0, 3)), b = lum(behind(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) out.push(ratio.toFixed(2) + ' ' + e.className + ' ' + e.textContent.slice(0, 40));
  }
  for (const e of document.querySelectorAll('button, a, canvas, progress')) if (!(e.getAttribute('aria-label') || e.textContent).trim()) out.push('no name: ' + e.outerHTML.slice(0, 80));
  return out.slice(0, 8);
})()`;

async function look(scenario, width, theme) {
  const name = `${scenario}-${width}-${theme}`, server = await serve(scenario), tab = await open(`http://127.0.0.1:${server.port}/`, width, theme, name);
  await tab.until(scenario === 'old' ? 'updates >= 20' : 'updates >= 221', 40000);
  const text = await tab.value('document.body.innerText + document.getElementById("cards").textContent');
  for (const want of EXPECT[scenario]) check(name, text.includes(want), `lacks the text: ${want}`);
  for (const bad of NEVER[scenario] ?? []) check(name, !text.includes(bad), `has the text: ${bad}`);
  check(name, await tab.value(`window.hacked === undefined && !document.querySelector('img, iframe, b b, main script, #cards b') && document.scripts.length === 1`), 'something was injected');
  check(name, await tab.value('document.documentElement.scrollWidth') <= width, 'is wider than the screen');
  const audit = await tab.value(AUDIT);
  check(name, !audit.length, audit.join(' | '));
  if (scenario === 'large') {
    const before = Object.fromEntries((await tab.send('Performance.getMetrics')).metrics.map(m => [m.name, m.value])), took = [];
    for (let at = await tab.value('updates'), end = at + 8; at < end; at = await tab.value('updates')) { await tab.until(`updates > ${at}`); took.push(await tab.value('updateMs')); }
    const after = Object.fromEntries((await tab.send('Performance.getMetrics')).metrics.map(m => [m.name, m.value]));
    const plots = await tab.value('(() => { const t = performance.now(); figures(); return performance.now() - t; })()');
    took.sort((a, b) => a - b);
    const cost = key => ((after[key] - before[key]) / took.length * 1000).toFixed(1);
    console.log(`${name}: update ${took[took.length >> 2].toFixed(1)} ms (least ${took[0].toFixed(1)}, most ${took.at(-1).toFixed(1)}), plots ${plots.toFixed(1)} ms, style ${cost('RecalcStyleDuration')} ms, layout ${cost('LayoutDuration')} ms a second; first state shown at ${(await tab.value('firstMs')).toFixed(0)} ms`);
    check(name, took[0] < 10, 'updates are slow'); // the least: other work on the machine only adds
  } else if (scenario === 'healthy') console.log(`${name}: first state shown at ${(await tab.value('firstMs')).toFixed(0)} ms`);
  await tab.picture(name);
  check(name, !tab.errors.length, tab.errors.join(' | '));
  await tab.close(); server.close();
}

async function act() { // buttons, keys, token, a server that goes away
  const server = await serve('healthy', { token: 'se cret', pace: 200 }), tab = await open(`http://127.0.0.1:${server.port}/#token=se%20cret`, 1400, 'light', 'act');
  await tab.until('updates > 30');
  check('token', await tab.value('location.hash === "" && !location.href.includes("token")'), 'stays in the address');
  await tab.value('document.querySelector("button[aria-label=\\"pause replica 2\\"]").click()');
  check('button', await tab.value('document.querySelector("button[aria-label=\\"kill replica 2\\"]").getAttribute("aria-disabled") === "true"'), 'is not disabled meanwhile');
  await tab.until('document.getElementById("said").textContent.includes("pause: replica 2")');
  await tab.until('document.body.innerText.includes("It is paused: resume it.")');
  await tab.value('document.getElementById("killer").click()');
  await tab.until('document.getElementById("said").textContent.includes("kill: replica 1")');
  check('posts', JSON.stringify(server.posted) === '[{"verb":"pause","replica":2,"good":true},{"verb":"kill","replica":1,"good":true}]', JSON.stringify(server.posted));
  await tab.value('document.querySelector("canvas").focus()');
  for (const key of ['ArrowLeft', 'ArrowLeft']) await tab.send('Input.dispatchKeyEvent', { type: 'keyDown', key });
  await tab.until('document.querySelector("figcaption .m").textContent.startsWith("at ")');
  await tab.value('document.getElementById("table").open = true');
  await tab.until('document.querySelector("#values tbody").innerText.includes("Requests")');
  await tab.picture('act-1400-light');
  check('act', !tab.errors.length, tab.errors.join(' | '));
  server.close();
  await tab.until('document.getElementById("live").textContent === "lost: trying again" && document.getElementById("body").classList.contains("stale")');
  await tab.picture('lost-1400-light');
  const again = await serve('healthy', { token: 'se cret', port: server.port });
  await tab.until('document.getElementById("live").textContent === "live" && !document.querySelector(".stale")');
  again.close();
  await tab.close();
}

try {
  for (const scenario of only.length ? only.filter(s => EXPECT[s]) : Object.keys(EXPECT)) {
    if (ONCE.includes(scenario)) await look(scenario, 1400, 'light');
    else for (const width of [360, 1400]) for (const theme of ['light', 'dark']) await look(scenario, width, theme);
  }
  if (!only.length || only.includes('act')) await act();
} finally {
  await send('Browser.close').catch(() => {});
  setTimeout(() => rmSync(profile, { recursive: true, force: true, maxRetries: 5 }), 500).ref();
}
console.log(failed ? `${failed} checks failed; screenshots in ${folder}` : `all checks passed; screenshots in ${folder}`);
process.exitCode = failed ? 1 : 0;
