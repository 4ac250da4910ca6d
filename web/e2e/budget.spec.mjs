// Bytes over the wire and time until the overview stands, each with an empty cache and before there is any work.
import { writeFile } from "node:fs/promises";
import { cpus, loadavg } from "node:os";
import { expect } from "@playwright/test";
import { open, platform, test } from "./scene.mjs";

const budget = 250_000; // bytes

test("the first load keeps its budget", async ({ browser }) => {
  const { base, token } = platform();
  const times = [];
  let bytes = 0;
  for (let i = 0; i < 5; i++) {
    const { context, page } = await open(browser);
    await context.addInitScript((secret) => sessionStorage.setItem("fermi.token", secret), token);
    const cdp = await context.newCDPSession(page);
    await cdp.send("Network.enable");
    const urls = new Map();
    let sum = 0;
    cdp.on("Network.responseReceived", (e) => urls.set(e.requestId, e.response.url));
    cdp.on("Network.loadingFinished", (e) => {
      if (!(urls.get(e.requestId) ?? "").includes("/api/")) sum += e.encodedDataLength;
    });
    await page.goto(base, { waitUntil: "commit" });
    const time = await page.evaluate(
      () =>
        new Promise((done) => {
          const look = () =>
            document.querySelectorAll('[role="img"] svg').length > 0 ? done(performance.now()) : setTimeout(look, 5);
          look();
        }),
    );
    times.push(time);
    await page.waitForLoadState("load");
    bytes = Math.max(bytes, sum);
    await context.close();
  }
  times.sort((a, b) => a - b);
  const middle = Math.round(times[2]);
  console.log(`measured: first load ${(bytes / 1000).toFixed(1)} kB over the wire (at most 250)`);
  // A time depends on what else runs: it is printed here and held to its bound by `make bench-web`.
  const all = times.map(Math.round).join(" ");
  console.log(
    `measured: interactive, median ${middle} ms (bound 1500), all ${all}; load ${loadavg()[0].toFixed(1)} on ${cpus().length} cores`,
  );
  expect(bytes).toBeGreaterThan(50_000);
  expect(bytes, "bytes of the first load").toBeLessThanOrEqual(budget);
  if (process.env.FERMI_WEB_REPORT) await writeFile(process.env.FERMI_WEB_REPORT, JSON.stringify({ bytes, times }));
});
