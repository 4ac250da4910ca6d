import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The API the development server stands before.
const server = process.env.FERMI_SERVER ?? "http://127.0.0.1:7070";

export default defineConfig({
  plugins: [react()],
  // web/dist also holds the file that keeps the folder; public/ carries it over.
  build: {
    target: "es2022",
    sourcemap: false,
    chunkSizeWarningLimit: 700, // kB; what counts is held by the suite: bytes over the wire
    modulePreload: { polyfill: false },
    // What the first page needs anyway comes in one piece: every further file costs its headers.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "first", tags: ["$initial"] }] } } },
  },
  server: { proxy: { "/api": server } },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/test-setup.ts"],
    css: { include: [/styles\.css/] }, // one test reads which styles are taken
    testTimeout: 60_000, // a busy machine is no fault of a page
  },
});
