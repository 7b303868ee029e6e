// Bundles the stories of the browser for Node, which runs them: `cargo xtask web test`.

import { defineConfig } from 'vite';

export default defineConfig({
  build: {
    ssr: true,
    outDir: 'node_modules/.browser',
    emptyOutDir: true,
    target: 'node20',
    minify: false,
    rollupOptions: { input: ['browser/stories.ts', 'browser/screenshots.ts'] },
  },
});
