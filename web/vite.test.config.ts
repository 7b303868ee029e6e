// Bundles the tests for Node, which runs them: `npm test`. They need no browser.

import { defineConfig } from 'vite';

export default defineConfig({
  build: {
    ssr: 'test/all.ts',
    outDir: 'node_modules/.tests',
    emptyOutDir: true,
    target: 'node20',
    minify: false,
  },
});
