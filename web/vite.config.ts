import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The API the development server stands before.
const server = process.env.FERMI_SERVER ?? "http://127.0.0.1:7070";

export default defineConfig({
  plugins: [react()],
  // web/dist also holds the file that keeps the folder; public/ carries it over.
  build: { target: "es2022", sourcemap: false, modulePreload: { polyfill: false } },
  server: { proxy: { "/api": server } },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/test-setup.ts"],
    testTimeout: 60_000, // a busy machine is no fault of a page
  },
});
