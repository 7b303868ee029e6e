// A user's home with a project, the real binary in it, and servers of it. Nothing outside is read or written.

import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';

/** Where the binary is, which `cargo xtask web test` builds. */
const BINARY = process.env['POSSE_BINARY'] ?? '';
/** A story that waits longer than this for a text or an event has failed. */
const PATIENCE_MS = 60_000;

/** What `GET /runs/RUN/events` answers. */
export interface JournalEvent {
  readonly seq: number;
  readonly kind: string;
  readonly agent_id: string;
  readonly at: string;
}

export class Home {
  readonly dir = mkdtempSync(join(tmpdir(), 'posse-page-'));
  readonly project = join(this.dir, 'project');
  readonly #servers: Server[] = [];

  constructor() {
    mkdirSync(this.project);
  }

  /** Writes a file of the project. */
  write(name: string, text: string): void {
    const path = join(this.project, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }

  /** Writes a scripted model. JSON is YAML too. */
  script(name: string, rules: unknown): void {
    this.write(name, JSON.stringify(rules));
  }

  /** Writes the user's settings. */
  settings(values: unknown): void {
    const path = join(this.dir, '.config/posse/settings.yaml');
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, JSON.stringify(values));
  }

  /** Writes a definition of the user that can start others. */
  lead(): void {
    const path = join(this.dir, '.config/posse/agents/lead.md');
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, '---\nname: lead\ndescription: Leads others.\nspawns: [general]\n---\nLead.\n');
  }

  /** Makes the project a repository with a commit. */
  commit(): void {
    const author = ['-c', 'user.name=Story', '-c', 'user.email=story@localhost'];
    for (const args of [['init', '-q', '-b', 'main'], ['add', '-A'], [...author, 'commit', '-q', '-m', 'first']]) {
      const done = spawnSync('git', args, { cwd: this.project, env: this.env });
      if (done.status !== 0) throw new Error(`git ${args.join(' ')}: ${done.stderr}`);
    }
  }

  get env(): Record<string, string> {
    return {
      PATH: process.env['PATH'] ?? '',
      HOME: this.dir,
      POSSE_HOME: join(this.dir, 'state'),
      // No server answers there, whatever runs on this machine.
      OLLAMA_HOST: '127.0.0.1:9',
      TMPDIR: this.dir,
      TZ: 'UTC',
    };
  }

  /** Starts a server, on a free port unless one is given. */
  async serve(...args: readonly string[]): Promise<Server> {
    const child = spawn(BINARY, ['serve', ...(args.includes('--listen') ? [] : ['--listen', '127.0.0.1:0']), ...args], {
      cwd: this.project,
      env: this.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const printed = new Output(child.stdout, child.stderr);
    const url = await printed.until(/http:\/\/[\d.]+:\d+\/\?token=\S+/);
    const server = new Server(child, url);
    this.#servers.push(server);
    return server;
  }

  /** Starts a command on a terminal. */
  terminal(...args: readonly string[]): Terminal {
    return new Terminal(
      spawn('script', ['--quiet', '--flush', '--return', '--command', [BINARY, ...args].map(quoted).join(' '), '/dev/null'], {
        cwd: this.project,
        env: { ...this.env, TERM: 'xterm-256color', SHELL: '/bin/sh' },
        stdio: ['pipe', 'pipe', 'pipe'],
      }),
    );
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.kill()));
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** What a process prints, and a way to wait for a part of it. */
class Output {
  text = '';
  readonly #waiting = new Set<() => void>();
  #isOver = false;

  constructor(...streams: readonly Readable[]) {
    let open = streams.length;
    for (const stream of streams) {
      stream.setEncoding('utf8');
      stream.on('data', (part: string) => {
        this.text += part;
        for (const wake of this.#waiting) wake();
      });
      stream.on('close', () => {
        open -= 1;
        this.#isOver = open === 0;
        for (const wake of this.#waiting) wake();
      });
    }
  }

  /** Waits until something is printed, and returns it. */
  until(wanted: RegExp): Promise<string> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = wanted.exec(this.text)?.[0];
        if (found === undefined && !this.#isOver) return;
        clearTimeout(timer);
        this.#waiting.delete(look);
        if (found === undefined) reject(new Error(`the process ended without ${wanted}: ${this.text}`));
        else resolve(found);
      };
      const timer = setTimeout(() => reject(new Error(`${wanted} does not come: ${this.text}`)), PATIENCE_MS);
      this.#waiting.add(look);
      look();
    });
  }
}

/** A command on a terminal. */
export class Terminal {
  readonly #output: Output;

  constructor(readonly child: ChildProcess) {
    if (child.stdout === null || child.stderr === null) throw new Error('the command has no output');
    this.#output = new Output(child.stdout, child.stderr);
  }

  until(wanted: RegExp): Promise<string> {
    return this.#output.until(wanted);
  }

  types(text: string): void {
    this.child.stdin?.write(text);
  }

  /** Waits for its end, and returns its exit code. */
  async ends(): Promise<number | null> {
    if (this.child.exitCode === null) await once(this.child, 'exit');
    return this.child.exitCode;
  }

  get shown(): string {
    return this.#output.text;
  }
}

/** A server, and what a story asks it directly, to compare it with what the page shows. */
export class Server {
  readonly origin: string;
  readonly token: string;

  constructor(
    readonly child: ChildProcess,
    readonly url: string,
  ) {
    const parsed = new URL(url);
    this.origin = parsed.origin;
    this.token = parsed.searchParams.get('token') ?? '';
  }

  get address(): string {
    return new URL(this.origin).host;
  }

  /** Asks the API; what is not a success fails the story. */
  async ask<T>(path: string, body?: unknown): Promise<T> {
    const headers = { Authorization: `Bearer ${this.token}`, 'Content-Type': 'application/json' };
    const sent = body === undefined ? { headers } : { headers, method: 'POST', body: JSON.stringify(body) };
    const response = await fetch(`${this.origin}/api/v1${path}`, sent);
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
    return JSON.parse(text) as T;
  }

  async start(model: string, request: string, settings: Record<string, unknown> = {}, more: object = {}): Promise<string> {
    const body = { request, settings: { model: `scripted/${model}`, ...settings }, ...more };
    return (await this.ask<{ run: string }>('/runs', body)).run;
  }

  /** The whole journal of a run. */
  async journal(run: string): Promise<JournalEvent[]> {
    const all: JournalEvent[] = [];
    for (let after = 0; ; ) {
      const page = await this.ask<{ events: JournalEvent[]; after: number; more: boolean }>(
        `/runs/${run}/events?after=${after}&limit=1000`,
      );
      all.push(...page.events);
      if (!page.more) return all;
      after = page.after;
    }
  }

  /** Waits for an event of a run, such as `agent.input_requested`, by its stream. */
  async until(run: string, kind: string): Promise<void> {
    const stop = AbortSignal.timeout(PATIENCE_MS);
    const headers = { Authorization: `Bearer ${this.token}` };
    const response = await fetch(`${this.origin}/api/v1/runs/${run}/events/stream?kind=${kind}`, { headers, signal: stop });
    if (response.body === null) throw new Error(`no stream: ${response.status}`);
    const decoder = new TextDecoder();
    let text = '';
    for await (const chunk of response.body) {
      text += decoder.decode(chunk as Uint8Array, { stream: true });
      if (/^data: *\{.*"kind"/m.test(text)) return;
      if (/^event: *end/m.test(text)) throw new Error(`run ${run} ended without ${kind}`);
    }
    throw new Error(`the stream of run ${run} ended without ${kind}`);
  }

  /** Ends the server as an operator would, and waits for its end. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM');
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill(signal);
    await ended;
  }
}
