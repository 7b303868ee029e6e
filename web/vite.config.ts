import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

import { filesTable } from './files-table.ts';

// The server that `npm run dev` shows: the URL that it printed, without the token.
const server = process.env['POSSE_SERVER'] ?? 'http://127.0.0.1:7766';

export default defineConfig({
  base: '/',
  plugins: [svelte(), filesTable()],
  build: {
    outDir: '../crates/protocols/page',
    emptyOutDir: true,
    target: 'es2022',
    // The policy of the page allows no `data:` but pictures.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    cssCodeSplit: false,
    rollupOptions: {
      output: {
        entryFileNames: 'assets/[name]-[hash].js',
        chunkFileNames: 'assets/[name]-[hash].js',
        assetFileNames: 'assets/[name]-[hash][extname]',
      },
    },
  },
  server: { proxy: { '/api': { target: server, changeOrigin: true } } },
});
