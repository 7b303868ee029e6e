import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type ProxyOptions } from 'vite';

import { filesTable } from './files-table.ts';

// The server that `npm run dev` shows the data of, and its token.
const server = process.env['POSSE_SERVER'] ?? 'http://127.0.0.1:7766';
const token = process.env['POSSE_SERVER_TOKEN'] ?? '';

// The server refuses requests that a browser sends for a page of another origin.
const proxy: ProxyOptions = {
  target: server,
  changeOrigin: true,
  configure: (proxied) => {
    proxied.on('proxyReq', (request) => {
      for (const name of ['origin', 'sec-fetch-site', 'cookie']) request.removeHeader(name);
      request.setHeader('authorization', `Bearer ${token}`);
    });
  },
};

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
  server: { proxy: { '/api': proxy } },
});
