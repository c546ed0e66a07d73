// Serves ../src/page.html with a scripted fake of its API, to look at the page without a cluster.
//   node serve.mjs [SCENARIO] [PORT]     scenarios: healthy, old, killed, byzantine, transfer, large, hostile, down, full
// States come from samples.json (recorded with `quorate status --json`; three replicas with two instances, and four of which
// one lied) with counters that grow. The first states come fast, as if five minutes had passed. check.mjs imports `serve`.
import http from 'node:http';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const here = name => new URL(name, import.meta.url);
const samples = JSON.parse(readFileSync(here('samples.json')));
const clone = x => JSON.parse(JSON.stringify(x));
const bounds = Array.from({ length: 16 }, (_, i) => 64e-6 * 2 ** i);
const wave = (n, of, by) => by * (1 + .25 * Math.sin(n / of) + .1 * Math.sin(n * 1.7));
export const EVIL = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> \`<b>bold</b>\` "'&amp;`;

function durations(n, rate, typical) { // as many as `rate` a second since the start, spread around `typical`
  const all = Math.round(n * rate);
  const share = le => Math.min(1, 1 / (1 + (typical * (1 + .3 * Math.sin(n / 40)) / le) ** 3));
  return { count: all, sum_s: all * typical, buckets: bounds.map(le => [le, Math.round(all * share(le))]) };
}
let integral = [0];
const total = n => { while (integral.length <= n) integral.push(integral.at(-1) + Math.max(0, Math.round(wave(integral.length, 30, 4200)))); return integral[n]; };

function grow(state, n) { // a second has passed n times
  for (const r of state.replicas) {
    const s = r.status;
    if (!s) continue;
    s.requests = total(n); s.executed = Math.round(total(n) / 12) - (r.replica % 3); s.batches = s.executed; s.reads = Math.round(total(n) * .4);
    s.log.position = total(n) * 320; s.process.cpu_s = total(n) * 41e-6 + n * .01 * r.replica; s.queue_bytes = s.leading ? Math.round(wave(n, 9, 9000)) : 0;
    s.latencies = { ordered: durations(n, s.leading ? 350 : 0, 1.4e-3), written: durations(n, 400, 7e-4) };
    s.turns = durations(n, 4000, 9e-5);
    for (const i of s.instances.each) i.decided = Math.round(s.executed / s.instances.each.length) - (i.instance % 2);
    Object.assign(s.checkpoints, { last_seq: 60000, agreed_seq: 60000, durable_seq: 60000 });
    s.lanes = [.42, .31, .08].map((b, i) => ({ ...s.lanes[0], lane: i + 1, busy: Math.round(1000 * wave(n + i, 11, b)) }));
    for (const m of s.members) if (m.active) m.lag_bytes = Math.round(Math.max(0, wave(n, 3, 900)));
  }
  return state;
}
const SCENARIOS = {
  healthy: n => grow(clone(samples.healthy), n),
  old: () => clone(samples.healthy), // a program that does not report latencies, and nothing happens
  killed(n) {
    if (n < 210) return SCENARIOS.healthy(n);
    if (n === 210 || n === 211) { const s = SCENARIOS.healthy(210); s.replicas[0] = { ...clone(samples.killed).replicas[0], life: 'killed' }; return s; }
    const s = grow(clone(samples.killed), n);
    s.replicas[0].life = 'killed';
    return s;
  },
  byzantine: n => grow(n < 205 ? { ...clone(samples.byzantine), replicas: clone(samples.byzantine).replicas.map(r => { r.status.suspects = []; r.status.problems = []; return r; }) } : clone(samples.byzantine), n),
  transfer(n) {
    const s = grow(clone(samples.healthy), n), r = s.replicas[2].status, done = 1e6 * Math.max(0, n - 190);
    if (n < 195) return s;
    r.checkpoints.transfer = { why: 'behind', seq: 60000, bytes_done: done, bytes_total: 64e6, chunks_done: 12, chunks_total: 900, sources: [1, 2], bytes_per_second: 1e6, installing: false };
    r.problems = [`this replica was away for too long and fetches the state from the others (${Math.round(done / 1e6)} of 61 MiB so far)`];
    r.executed = 9000; r.tls.expires_in_days = 12; r.log.disk_full = n > 215;
    for (const m of s.replicas[0].status.members) if (m.replica === 3) m.lag_bytes = 18446744073709551615;
    return s;
  },
  full(n) { // the leader knows of two full disks; and each replica counts what a fourth one does
    const s = grow(clone(samples.healthy), n);
    if (n > 205) Object.assign(s.replicas[0].status.log, { takes_writes: false, full: [2, 3] });
    if (n > 200) for (const r of s.replicas) r.status.problems = [`r4 did what no honest replica does (${n * r.replica} times, the last: a vote for s${n} without a signature): the others go on without it`];
    return s;
  },
  large(n) { // 64 replicas, 8 instances
    const model = samples.healthy.replicas[0].status;
    const replicas = Array.from({ length: 64 }, (_, i) => {
      const id = i + 1, s = clone(model);
      s.instances.count = 8;
      s.instances.each = Array.from({ length: 8 }, (_, k) => ({ ...model.instances.each[0], instance: k + 1, view: 3 + k, leader: 1 + k * 7, leading: id === 1 + k * 7 }));
      s.leading = s.instances.each.some(x => x.leading);
      s.peers = Array.from({ length: 64 }, (_, k) => ({ replica: k + 1, address: `10.0.0.${k + 1}:7900`, connected: k !== 12, links: 1, refusal: null })).filter(p => p.replica !== id);
      s.members = id === 1 ? s.peers.map(p => ({ replica: p.replica, lag_bytes: 0, active: p.connected })) : [];
      s.membership.members = Array.from({ length: 64 }, (_, k) => ({ ...model.membership.members[0], replica: k + 1, role: k > 60 ? 'learner' : 'voter' }));
      s.problems = ['r13 at 10.0.0.13:7900 is not connected: start it, or check the network between them'];
      return id === 13 ? { replica: id, address: `10.0.0.${id}:7900`, reachable: false, error: 'connection refused' } : { replica: id, address: `10.0.0.${id}:7900`, reachable: true, status: s };
    });
    return grow({ cluster: samples.healthy.cluster, replicas }, n);
  },
  hostile(n) { // one replica says anything at all
    const s = grow(clone(samples.byzantine), n), r = s.replicas[1];
    r.status = { ...r.status, executed: EVIL, view: [EVIL], problems: [EVIL, { toString: 1 }, 7, 'x'.repeat(90000)], suspects: [{ replica: 3, times: EVIL, what: EVIL }, null], lanes: [null, { busy: EVIL }, { busy: -1e99 }],
      instances: { each: [null, { instance: 1e9 }, { instance: 1, view: 1e300, leader: 2, leading: true, decided: -5, state: EVIL }] }, log: null, process: { memory_bytes: 1e308, version: EVIL },
      peers: [{ replica: 1, refusal: EVIL, connected: 'yes' }], membership: EVIL, members: [{ replica: 1, lag_bytes: -1 }], checkpoints: { diverged: EVIL, transfer: { why: EVIL, bytes_done: 9, bytes_total: 3, sources: [EVIL] } } };
    r.address = EVIL;
    s.replicas[3] = { replica: 4, address: '127.0.0.1:1', reachable: false, error: EVIL, life: EVIL };
    s.replicas.push(null, 7, { replica: 'x' }, { replica: 1 });
    return s;
  },
  down(n) {
    const s = SCENARIOS.healthy(n);
    if (n > 205) for (const i of [0, 1]) s.replicas[i] = { replica: i + 1, address: s.replicas[i].address, reachable: false, error: 'no answer in time', life: i ? 'paused' : 'ended', ended: i ? null : 'its certificate is for replica 3' };
    return s;
  },
};

/// Starts a server; `token` is demanded if given. Answers the port, what was posted, and how to end it.
export async function serve(scenario, { port = 0, token = '', history = 220, pace = 1000 } = {}) {
  const page = readFileSync(here('../src/page.html'), 'utf8'), posted = [], lives = {};
  const hash = tag => `'sha256-${createHash('sha256').update(new RegExp(`<${tag}>([^]*?)</${tag}>`).exec(page)[1]).digest('base64')}'`;
  const csp = `default-src 'none'; script-src ${hash('script')}; style-src ${hash('style')}; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'`;
  const begin = Date.now() - history * 1000, dev = scenario !== 'large';
  const server = http.createServer((request, answer) => {
    const url = new URL(request.url, 'http://x');
    if (url.pathname === '/') return answer.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': csp }).end(page);
    if (url.pathname === '/api/events') {
      if (token && url.searchParams.get('token') !== token) return answer.writeHead(401).end();
      answer.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
      let n = 0;
      const next = () => {
        const s = { ...SCENARIOS[scenario](n), time_ms: begin + n * 1000, dev };
        for (const r of s.replicas) if (r && dev && typeof r === 'object') { r.life = lives[r.replica] ?? r.life ?? 'running'; if (['killed', 'paused'].includes(r.life)) Object.assign(r, { reachable: false, status: null, error: 'connection refused' }); }
        answer.write(`data: ${JSON.stringify(s)}\n\n`);
        timer = setTimeout(next, ++n < history ? 4 : pace);
      };
      let timer = setTimeout(next, 0);
      return answer.on('close', () => clearTimeout(timer));
    }
    if (url.pathname === '/api/chaos' && request.method === 'POST') {
      let body = '';
      request.on('data', part => body += part).on('end', () => {
        const { verb, replica } = JSON.parse(body), good = request.headers['x-quorate'] === '1' && (!token || request.headers.authorization === `Bearer ${token}`);
        posted.push({ verb, replica, good });
        lives[replica] = { kill: 'killed', pause: 'paused' }[verb] ?? 'running';
        setTimeout(() => answer.writeHead(good ? 200 : 403, { 'content-type': 'application/json' }).end(JSON.stringify(good ? { ok: true, text: `${verb}: replica ${replica}` } : { ok: false, error: 'no' })), 150);
      });
      return;
    }
    answer.writeHead(404).end();
  });
  await new Promise(done => server.listen(port, '127.0.0.1', done));
  return { port: server.address().port, posted, close: () => { server.closeAllConnections(); server.close(); } };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { port } = await serve(process.argv[2] ?? 'healthy', { port: Number(process.argv[3] ?? 8642) });
  console.log(`http://127.0.0.1:${port}/`);
}
