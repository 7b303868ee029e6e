import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { Plugin } from 'vite';

const here = dirname(fileURLToPath(import.meta.url));

/** The media types of the files. A file of another type fails the build: the server would not know what to send. */
const TYPES: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  txt: 'text/plain; charset=utf-8',
  webmanifest: 'application/manifest+json',
};

/** Lists the files of the bundle for Rust, which embeds them: `page.rs` includes the list. */
export function filesTable(): Plugin {
  const packages = new Set<string>();
  return {
    name: 'files-table',
    apply: 'build',
    generateBundle(_options, bundle) {
      for (const file of Object.values(bundle)) {
        if (file.type !== 'chunk') continue;
        for (const [id, { renderedLength }] of Object.entries(file.modules)) {
          const name = /node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/.exec(id)?.[1];
          if (name !== undefined && renderedLength > 0) packages.add(name);
        }
      }
    },
    writeBundle({ dir }) {
      if (dir === undefined) return;
      writeNotices(dir, [...packages].sort());
      const names = readdirSync(dir, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() && entry.name !== 'files.in')
        .map((entry) => join(entry.parentPath, entry.name).slice(dir.length + 1))
        .sort();
      const rows = names.map((name) => {
        const type = TYPES[name.slice(name.lastIndexOf('.') + 1)];
        if (type === undefined) throw new Error(`${name}: files-table.ts does not know this type of file`);
        return `    asset!("${name}", "${type}"),\n`;
      });
      writeFileSync(join(dir, 'files.in'), `[\n${rows.join('')}]\n`);
    },
  };
}

/** The licences of what is in the bundle beside the project's own code. */
function writeNotices(dir: string, packages: readonly string[]): void {
  const texts = packages.map((name) => {
    const from = join(here, 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'));
    const file = readdirSync(from).find((entry) => /^licen[sc]e/i.test(entry));
    if (file === undefined) throw new Error(`${name}: there is no licence to show`);
    return `${name} ${version} (${license})\n\n${readFileSync(join(from, file), 'utf8').trim()}\n`;
  });
  writeFileSync(join(dir, 'licences.txt'), `The page contains parts of these packages.\n\n${texts.join('\n')}`);
}
