// The browser suite: `make e2e-web`. One platform for all scenes, so one worker; each scene in both languages.
import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "e2e",
  outputDir: "../.cache/e2e-web",
  globalSetup: "./e2e/platform.mjs",
  workers: 1,
  timeout: 180_000,
  forbidOnly: true,
  reporter: "list",
  use: {
    browserName: "chromium",
    screenshot: "only-on-failure",
    // Debian's, with its fonts; nothing is downloaded.
    launchOptions: { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium" },
  },
  projects: [
    { name: "budget", testMatch: "budget.spec.mjs" },
    { name: "work", testMatch: "work.spec.mjs", dependencies: ["budget"] },
    ...["zh", "en"].map((lang) => ({
      name: lang,
      testMatch: ["account.spec.mjs", "member.spec.mjs", "tour.spec.mjs"],
      dependencies: ["work"],
      use: { lang },
    })),
  ],
});
