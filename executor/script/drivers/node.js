// Runs handlers in JavaScript. What it is told comes in lines on descriptor 3, and how jobs ended goes out on descriptor 4; docs/handlers.md has the lines.
'use strict';
const fs = require('fs');
const net = require('net');
const path = require('path');
const vm = require('vm');
const { createRequire } = require('module');

const maxResult = 65536;
const handlers = new Map();
const pause = new Int32Array(new SharedArrayBuffer(4));
let mark = null;

// put writes all, also into a pipe that is full for the moment.
function put(fd, data) {
  let buf = Buffer.from(data);
  while (buf.length > 0) {
    try {
      buf = buf.subarray(fs.writeSync(fd, buf));
    } catch (err) {
      if (err.code !== 'EAGAIN') throw err;
      Atomics.wait(pause, 0, 0, 1);
    }
  }
}

function putMark() {
  for (const fd of [1, 2]) {
    try {
      put(fd, mark);
    } catch { /* the handler has closed it */ }
  }
}

const decode = (word) => Buffer.from(word === '-' ? '' : word, 'base64');

function encode(text) {
  const buf = Buffer.from(text === undefined ? '' : text);
  return buf.length === 0 ? '-' : buf.toString('base64');
}

const explain = (err) => (err instanceof Error ? `${err.name}: ${err.message}` : String(err)).slice(0, 4000);

const options = (filename) => {
  const loader = vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  return loader ? { filename, importModuleDynamically: loader } : { filename };
};

// around makes an async function of a script that runs around jobs.
function around(script, name, require, context) {
  if (script === '') return null;
  const f = vm.compileFunction(`return (async () => {${script}\n})()`, ['require', 'context'], options(name));
  return () => f(require, context);
}

async function load(id, words) {
  const [body, before, beforeEach, afterEach] = words.map((w) => decode(w).toString());
  const file = path.join(process.cwd(), 'handler.js');
  const require = createRequire(file);
  const context = {};
  const module = { exports: {} };
  const first = around(before, 'before.js', require, context);
  if (first) await first();
  vm.compileFunction(body, ['require', 'module', 'exports', 'context'], options('handler.js'))(require, module, module.exports, context);
  if (typeof module.exports !== 'function') throw new Error('the handler exports no function: write module.exports = async (payload, job) => …');
  handlers.set(id, {
    run: module.exports,
    beforeEach: around(beforeEach, 'before-each.js', require, context),
    afterEach: around(afterEach, 'after-each.js', require, context),
  });
}

// End is what a handler returns that says how the job ended.
class End {
  constructor(status, value, delay) {
    this.status = status;
    this.value = value;
    this.delay = delay;
  }
}

const isStatus = (v) => Number.isInteger(v) && v >= 100 && v <= 599;

function resultOf(value) {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string' || Buffer.isBuffer(value)) return value;
  return JSON.stringify(value);
}

async function runJob(handler, words) {
  const [id, type, queue, tenant, attempt, most, payload] = words;
  const bytes = decode(payload);
  const job = {
    id, type, queue, tenant, attempt: Number(attempt), maxAttempts: Number(most), payload: bytes,
    end: (status, value, delay) => new End(status, value, delay),
  };
  try {
    let end = await handler.run(bytes.toString(), job);
    if (!(end instanceof End)) end = isStatus(end) ? new End(end) : new End(200, end);
    if (!isStatus(end.status)) throw new Error(`status ${end.status} is none from 100 to 599`);
    const delay = Math.max(0, Math.round((Number(end.delay) || 0) * 1000));
    if (Math.floor(end.status / 100) !== 2) {
      return `${end.status} ${delay} - ${encode(end.value === undefined ? '' : String(end.value).slice(0, 4000))}`;
    }
    const result = resultOf(end.value);
    if (Buffer.byteLength(result) > maxResult) throw new Error(`the result has more than ${maxResult} bytes: keep it elsewhere and return where`);
    return `${end.status} ${delay} ${encode(result)} -`;
  } catch (err) {
    console.error(err);
    return `500 0 - ${encode(explain(err))}`;
  }
}

async function runBatch(handler, n, next) {
  const jobs = [];
  let failed = null;
  if (handler.beforeEach) {
    try {
      await handler.beforeEach();
    } catch (err) {
      console.error(err);
      failed = err;
    }
  }
  put(4, failed ? `begin 500 ${encode(explain(failed))}\n` : 'begin 200 -\n');
  for (let i = 0; i < n; i++) {
    const words = (await next()).split(' ');
    if (failed) continue;
    const end = await runJob(handler, words.slice(2));
    if (i < n - 1) putMark();
    put(4, `done ${words[1]} ${end}\n`);
  }
  failed = null;
  if (handler.afterEach) {
    try {
      await handler.afterEach();
    } catch (err) {
      console.error(err);
      failed = err;
    }
  }
  putMark();
  put(4, failed ? `end 500 ${encode(explain(failed))}\n` : 'end 200 -\n');
}

// lines gives a function that waits for the next line.
function lines(fd) {
  const waiting = [];
  let at = 0;
  let rest = '';
  let wake = null;
  const socket = new net.Socket({ fd, readable: true, writable: false });
  socket.setEncoding('latin1');
  socket.on('data', (data) => {
    const parts = (rest + data).split('\n');
    rest = parts.pop();
    waiting.push(...parts);
    if (wake && at < waiting.length) {
      const f = wake;
      wake = null;
      f();
    }
  });
  socket.on('close', () => process.exit(0));
  return async () => {
    if (at === waiting.length) {
      waiting.length = 0;
      at = 0;
      await new Promise((resolve) => { wake = resolve; });
    }
    return waiting[at++];
  };
}

async function main() {
  const next = lines(3);
  for (;;) {
    const [verb, ...words] = (await next()).split(' ');
    switch (verb) {
      case 'hello':
        mark = `\x1e${words[1]}\x1e`;
        put(4, 'hello 1\n');
        break;
      case 'handler':
        try {
          await load(words[0], words.slice(1));
          put(4, `loaded ${words[0]} 200 -\n`);
        } catch (err) {
          console.error(err);
          put(4, `loaded ${words[0]} 500 ${encode(explain(err))}\n`);
        }
        break;
      case 'batch':
        await runBatch(handlers.get(words[0]), Number(words[1]), next);
        break;
    }
  }
}

main();
