// What all scenes share: the platform's API, pages that keep every complaint of the browser, and the checks made of each page.
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { test as bare, expect } from "@playwright/test";

export const root = resolve(fileURLToPath(import.meta.url), "../../..");
export const pictures = resolve(root, process.env.FERMI_PICTURES || ".cache/pictures");
const axe = await readFile(join(root, "web/node_modules/axe-core/axe.min.js"), "utf8");
export const words = { zh: await catalogue("zh"), en: await catalogue("en") };

/** The language is a project's: zh or en. */
export const test = bare.extend({ lang: ["zh", { option: true, scope: "worker" }] });

/** Where the platform is; set once it runs. */
export function platform() {
  return JSON.parse(process.env.FERMI_E2E);
}

/** The tasks that work.spec.mjs made to look at. */
export async function work() {
  return JSON.parse(await readFile(platform().work, "utf8"));
}

/** The words of a language, read from its source: a line a key. */
async function catalogue(lang) {
  const text = await readFile(join(root, `web/src/i18n/${lang}.ts`), "utf8");
  const pairs = [...text.matchAll(/^\s{2}"([^"]+)":\s*"((?:[^"\\]|\\.)*)",$/gm)].map((m) => [m[1], m[2]]);
  return Object.fromEntries(pairs);
}

export function must(condition, text) {
  expect(condition, text).toBeTruthy();
}

export async function call(method, path, body) {
  const response = await fetch(`${platform().base}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${platform().token}`, ...(body && { "Content-Type": "application/json" }) },
    body: body && JSON.stringify(body),
  });
  const answer = await response.json();
  must(response.ok, `${method} ${path}: ${JSON.stringify(answer)}`);
  return answer.data;
}

export async function text(path) {
  const response = await fetch(`${platform().base}/api/v1${path}`, {
    headers: { Authorization: `Bearer ${platform().token}` },
  });
  must(response.ok, `GET ${path}: ${response.status}`);
  return response.text();
}

export async function submit(displayName, command, more = {}, spec = {}) {
  const roles = [{ command: ["sh", "-c", command], ...more }];
  const made = await call("POST", "/training-tasks", { metadata: { displayName }, spec: { roles, ...spec } });
  return made.taskId;
}

export async function untilPhase(id, phase) {
  for (;;) {
    const task = await call("GET", `/training-tasks/${id}`);
    if (task.status?.phase === phase) return task;
    must(
      !["Completed", "Failed", "Stopped"].includes(task.status?.phase),
      `${id} is ${task.status?.phase}, not ${phase}`,
    );
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** A page that keeps every complaint of the browser. */
export async function open(browser, lang = "en") {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 860 },
    locale: lang === "zh" ? "zh-CN" : "en-US",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const complaints = [];
  page.on(
    "console",
    (m) => m.type() === "error" && !m.text().includes(networkChanged) && complaints.push(`console: ${m.text()}`),
  );
  page.on("pageerror", (e) => complaints.push(`exception: ${e.message}`));
  page.on("dialog", (d) => {
    complaints.push(`dialog: ${d.message()}`);
    void d.dismiss();
  });
  // A stream that is closed because its page is left is no failure.
  page.on("requestfailed", (r) => {
    const why = r.failure()?.errorText ?? "";
    if (why !== "net::ERR_ABORTED" && why !== networkChanged)
      complaints.push(`request: ${r.method()} ${r.url()} ${why}`);
  });
  reloading(page);
  page.on("response", (r) => r.status() >= 400 && complaints.push(`status: ${r.status()} ${r.url()}`));
  return { context, page, complaints };
}

// A browser drops what it loads when an address of its machine comes or goes, as with the first task of a project.
const networkChanged = "net::ERR_NETWORK_CHANGED";

// reloading does what people do then: load the page again.
function reloading(page) {
  const load = page.goto.bind(page);
  page.goto = async (...to) => {
    for (let tries = 1; ; tries++) {
      let dropped = false;
      const look = (r) => (dropped ||= r.failure()?.errorText === networkChanged);
      page.on("requestfailed", look);
      const answer = await load(...to).catch((e) => {
        if (!String(e).includes(networkChanged)) throw e;
        dropped = true;
      });
      page.off("requestfailed", look);
      if (!dropped) return answer;
      must(tries < 3, "the network changed under three loads of a page");
    }
  };
}

export async function signIn(page, lang) {
  await page.goto(platform().base);
  const t = words[lang];
  const other = words[lang === "zh" ? "en" : "zh"];
  await page.getByRole("button", { name: /中文|EN/ }).waitFor();
  if (await page.getByRole("button", { name: other["nav.language"] }).isVisible()) {
    await page.getByRole("button", { name: other["nav.language"] }).click();
  }
  await page.getByText(t["signIn.byToken"], { exact: true }).click();
  await page.getByLabel(t["signIn.token"], { exact: true }).fill(platform().token);
  await page.getByRole("button", { name: t["signIn.submit"] }).click();
  await page.getByRole("heading", { name: t["overview.title"] }).waitFor();
}

export async function signInByPassword(page, t, user, password) {
  await page.getByLabel(t["signIn.user"], { exact: true }).fill(user);
  await page.locator('input[autocomplete="current-password"]').fill(password);
  await page.getByRole("button", { name: t["signIn.submit"] }).click();
}

export async function goTo(page, word) {
  await page.getByRole("navigation").getByRole("link", { name: word }).click();
}

/** No serious complaint of axe about the page as it stands. */
export async function accessible(page, where) {
  await page.evaluate(axe);
  // What is still fading in has colours of its own; wait until everything that ends has ended.
  await page.evaluate(async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const moving = () => document.getAnimations().filter((a) => a.effect?.getComputedTiming().endTime !== Infinity);
    for (let calm = 0; calm < 5; calm++) {
      await frame();
      if (moving().length > 0) calm = -1;
    }
  });
  const { violations } = await page.evaluate(() => window.axe.run(document));
  const serious = violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  const text = serious.map(
    (v) => `${v.id}: ${v.nodes.map((n) => `${n.html.slice(0, 160)} ${n.failureSummary}`).join(" | ")}`,
  );
  must(serious.length === 0, `axe on ${where}: ${text.join("\n")}`);
}

export async function picture(page, name) {
  await page.mouse.move(0, 0);
  await page.screenshot({ path: join(pictures, `${name}.png`), animations: "disabled" });
}
