import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { onePage } from "./making/one-page.js";

export default defineConfig({
  plugins: [
    // Elements are made one by one instead of from strings of markup, and styles go into the one page.
    svelte({ compilerOptions: { fragments: "tree", runes: true } }),
    onePage(),
  ],
  build: {
    outDir: "../src/regard/sight/explorer/page",
    emptyOutDir: false, // the folder is a package of Python, too
    target: "es2022",
    assetsInlineLimit: 100_000_000,
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
  },
  worker: { format: "iife" },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
