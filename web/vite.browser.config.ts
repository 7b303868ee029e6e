// Bundles the stories of the browser for Node, which runs them: `cargo xtask web test`.

import { defineConfig } from 'vite';

export default defineConfig({
  build: {
    ssr: 'browser/main.ts',
    outDir: 'node_modules/.browser',
    emptyOutDir: true,
    target: 'node20',
    minify: false,
  },
});
