// The console in a real browser, against the shipped binary: `make e2e-web`. Prints "ok" or "FAIL"
// a scenario and the measured numbers; pictures of the pages go to $FERMI_PICTURES.
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { cpus, loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { seeCheckpoints } from "./checkpoints.mjs";
import { seeBothEnd, seeInside, seeUse, startHosts } from "./inside.mjs";
import { seeMember } from "./member.mjs";
import { hurtTask, seeFigures, seeNoRecovery, seeRecipe, seeRecovery } from "./training.mjs";

const root = resolve(fileURLToPath(import.meta.url), "../../..");
const pictures = resolve(root, process.env.FERMI_PICTURES || ".cache/pictures");
const axe = await readFile(join(root, "web/node_modules/axe-core/axe.min.js"), "utf8");
const words = { zh: await catalogue("zh"), en: await catalogue("en") };
const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>`;
const budget = { bytes: 250_000 };

let failed = 0;
let base = "";
let token = "";

/** The words of a language, read from its source: a line a key. */
async function catalogue(lang) {
  const text = await readFile(join(root, `web/src/i18n/${lang}.ts`), "utf8");
  const pairs = [...text.matchAll(/^\s{2}"([^"]+)":\s*"((?:[^"\\]|\\.)*)",$/gm)].map((m) => [m[1], m[2]]);
  return Object.fromEntries(pairs);
}

async function step(name, action) {
  const begin = Date.now();
  try {
    await action();
    console.log(`ok   ${name} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}: ${error?.stack ?? error}`);
  }
}

function must(condition, text) {
  if (!condition) throw new Error(text);
}

function freePort() {
  return new Promise((done, fail) => {
    const server = createServer();
    server.once("error", fail);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

/** Starts the platform; the answer ends it and removes its data. */
async function startPlatform() {
  const data = await mkdtemp(join(tmpdir(), "fermi-web-"));
  const listen = `127.0.0.1:${await freePort()}`;
  base = `http://${listen}`;
  const child = spawn(
    join(root, "bin/fermi"),
    ["up", "--demo", "--data", data, "--listen", listen, "--checkpoints-store", join(data, "kept")],
    {
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  let said = "";
  child.stderr.on("data", (chunk) => {
    said = (said + chunk).slice(-4000);
  });
  const ended = new Promise((done) => child.once("exit", done));
  const deadline = Date.now() + 60_000;
  while (
    !(await fetch(`${base}/readyz`).then(
      (r) => r.ok,
      () => false,
    ))
  ) {
    if (Date.now() > deadline || child.exitCode !== null) throw new Error(`the platform does not start: ${said}`);
    await new Promise((done) => setTimeout(done, 50));
  }
  token = (await readFile(join(data, "admin.token"), "utf8")).trim();
  return async () => {
    // Launchers outlive the server: what still runs is stopped first.
    const { items } = await call("GET", "/training-tasks?limit=500&phase=Running,Initializing,Pending");
    for (const task of items) await call("POST", `/training-tasks/${task.metadata.id}/stop`);
    for (const task of items) await untilPhase(task.metadata.id, "Stopped");
    child.kill("SIGTERM");
    await ended;
    await rm(data, { recursive: true, force: true });
  };
}

async function call(method, path, body) {
  const response = await fetch(`${base}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${token}`, ...(body && { "Content-Type": "application/json" }) },
    body: body && JSON.stringify(body),
  });
  const answer = await response.json();
  must(response.ok, `${method} ${path}: ${JSON.stringify(answer)}`);
  return answer.data;
}

async function text(path) {
  const response = await fetch(`${base}/api/v1${path}`, { headers: { Authorization: `Bearer ${token}` } });
  must(response.ok, `GET ${path}: ${response.status}`);
  return response.text();
}

async function submit(displayName, command, more = {}, spec = {}) {
  const roles = [{ command: ["sh", "-c", command], ...more }];
  const made = await call("POST", "/training-tasks", { metadata: { displayName }, spec: { roles, ...spec } });
  return made.taskId;
}

async function untilPhase(id, phase) {
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
async function open(browser, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 860 },
    acceptDownloads: true,
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const complaints = [];
  page.on("console", (m) => m.type() === "error" && complaints.push(`console: ${m.text()}`));
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

async function signIn(page, lang) {
  await page.goto(base);
  const t = words[lang];
  const other = words[lang === "zh" ? "en" : "zh"];
  await page.getByRole("button", { name: /中文|EN/ }).waitFor();
  if (await page.getByRole("button", { name: other["nav.language"] }).isVisible()) {
    await page.getByRole("button", { name: other["nav.language"] }).click();
  }
  await page.getByText(t["signIn.byToken"], { exact: true }).click();
  await page.getByLabel(t["signIn.token"], { exact: true }).fill(token);
  await page.getByRole("button", { name: t["signIn.submit"] }).click();
  await page.getByRole("heading", { name: t["overview.title"] }).waitFor();
}

async function signInByPassword(page, t, user, password) {
  await page.getByLabel(t["signIn.user"], { exact: true }).fill(user);
  await page.locator('input[autocomplete="current-password"]').fill(password);
  await page.getByRole("button", { name: t["signIn.submit"] }).click();
}

async function goTo(page, word) {
  await page.getByRole("navigation").getByRole("link", { name: word }).click();
}

/** No serious complaint of axe about the page as it stands. */
async function accessible(page, where) {
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

async function picture(page, name) {
  await page.mouse.move(0, 0);
  await page.screenshot({ path: join(pictures, `${name}.png`), animations: "disabled" });
}

async function tour(browser, lang, ids) {
  const t = words[lang];
  const { context, page, complaints } = await open(browser, { locale: lang === "zh" ? "zh-CN" : "en-US" });
  const clean = () => {
    must(complaints.length === 0, complaints.splice(0).join("\n"));
  };

  await step(`${lang}: a wrong token is refused in words`, async () => {
    await page.goto(base);
    await page.getByRole("heading", { name: t["signIn.title"] }).waitFor();
    await accessible(page, "sign-in");
    await picture(page, `sign-in-${lang}`);
    clean();
    await page.getByText(t["signIn.byToken"], { exact: true }).click();
    await accessible(page, "sign-in by token");
    await picture(page, `sign-in-token-${lang}`);
    await page.getByLabel(t["signIn.token"], { exact: true }).fill("wrong");
    await page.getByRole("button", { name: t["signIn.submit"] }).click();
    await page.getByRole("alert").waitFor();
    complaints.splice(0); // the refusal itself is one
  });

  await step(`${lang}: sign in and see zones and devices`, async () => {
    await signIn(page, lang);
    await page.getByText("北京-1", { exact: true }).first().waitFor();
    await page.getByRole("img", { name: /上海-1/ }).waitFor();
    await page.getByText(t["state.live"], { exact: true }).waitFor();
    await page.getByRole("link", { name: "GPT大模型分布式训练" }).first().waitFor();
    await seeFigures({ page, t, must });
    await accessible(page, "overview");
    await picture(page, `overview-${lang}`);
    await goTo(page, t["nav.zones"]);
    await page.getByRole("cell", { name: "12.3" }).first().waitFor();
    await page.getByText(t["zones.degraded"], { exact: true }).first().waitFor();
    await page.getByText("shanghai-1-n32").last().waitFor();
    await accessible(page, "zones");
    await picture(page, `zones-${lang}`);
    clean();
  });

  let name = "";
  await step(`${lang}: create a task from the form, the YAML beside it`, async () => {
    await goTo(page, t["nav.create"]);
    name = lang === "zh" ? "我的第一个任务" : "my first task";
    await page.getByLabel(t["create.displayName"], { exact: true }).fill(name);
    await page
      .getByLabel(t["create.command"], { exact: true })
      .fill('for i in $(seq 1 600); do echo "step=$i loss=0.$((1000 - i))"; sleep 0.1; done');
    const yaml = page.getByRole("textbox", { name: "YAML" });
    must((await yaml.inputValue()).includes(name), "the YAML does not follow the form");
    await yaml.fill((await yaml.inputValue()).replace("replicas: 1", "replicas: 2"));
    const replicas = page.getByLabel(t["create.replicas"], { exact: true });
    must((await replicas.inputValue()) === "2", "the form does not follow the YAML");
    await page.getByRole("button", { name: t["create.check"], exact: true }).click();
    await page.getByText(t["create.checkOk"]).waitFor();
    await accessible(page, "create");
    await picture(page, `create-${lang}`);
    clean();
    await yaml.fill("spec: [");
    await page.getByText(t["create.yamlBad"]).first().waitFor();
    await yaml.fill(
      `metadata: {displayName: ${JSON.stringify(name)}}\nspec: {roles: [{command: [sh, -c, 'for i in $(seq 1 600); do echo "step=$i loss=0.$((1000 - i))"; sleep 0.1; done']}], nonsense: 1}\n`,
    );
    await page.getByRole("button", { name: t["create.submit"], exact: true }).click();
    await page.getByRole("alert").getByText("nonsense").first().waitFor();
    complaints.splice(0); // refused, as it must be
    await yaml.fill((await yaml.inputValue()).replace(", nonsense: 1", ""));
    await page.getByRole("button", { name: t["create.submit"], exact: true }).click();
    await page.getByRole("heading", { name }).waitFor();
    clean();
  });

  await step(`${lang}: watch its log live`, async () => {
    const log = page.getByRole("log");
    await log.getByText("step=3 ").waitFor();
    await page.getByText(t["phase.Running"], { exact: true }).waitFor();
    await log.getByText("step=15 ").waitFor();
    await accessible(page, "task");
    await picture(page, `task-${lang}`);
    clean();
  });

  await step(`${lang}: stop it`, async () => {
    await page.getByRole("button", { name: t["task.stop"], exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(t["task.stopText"]).waitFor();
    await accessible(page, "stop dialog");
    await dialog.getByRole("button", { name: t["task.stopConfirm"], exact: true }).click();
    await page.getByText(t["phase.Stopped"], { exact: true }).first().waitFor();
    await page.getByRole("log").getByText(t["task.logEnded"]).waitFor();
    for (const tab of ["task.events", "task.replicas", "task.yaml", "task.outputs"]) {
      await page.getByRole("tab", { name: t[tab], exact: true }).click();
      await page.getByRole("tabpanel").waitFor();
      await accessible(page, tab);
    }
    clean();
  });

  await step(`${lang}: outputs are downloaded`, async () => {
    await page.goto(`${base}/tasks/${ids.done}`);
    await page.getByRole("tab", { name: t["task.outputs"], exact: true }).click();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: /result\.txt/ }).click(),
    ]);
    must((await readFile(await download.path(), "utf8")) === "forty-two\n", "the file is not what was written");
    clean();
  });

  const scene = { page, base, t, accessible, picture, must, call };
  await step(`${lang}: what failures cost is drawn`, async () => {
    await seeNoRecovery(scene, ids.done);
    await seeRecovery(scene, ids, lang);
    clean();
  });

  await step(`${lang}: a recipe is shown before it is used`, async () => {
    await seeRecipe(scene, lang);
    clean();
  });

  await step(`${lang}: a task inside others is chosen, and runs there`, async () => {
    await seeInside(scene, lang);
    clean();
  });

  await step(`${lang}: an environment is stopped with the task inside it`, async () => {
    await seeBothEnd({ ...scene, untilPhase }, lang);
    clean();
  });

  await step(`${lang}: checkpoints are drawn, pinned and gone back to`, async () => {
    await seeCheckpoints({ ...scene, untilPhase }, lang);
    clean();
  });

  await step(`${lang}: what a task uses stands beside the goals`, async () => {
    await seeUse(scene, ids.hurt, lang);
    clean();
  });

  await step(`${lang}: a task that waits says why`, async () => {
    await page.goto(`${base}/tasks/${ids.waits}`);
    await page.getByText(/QueuePaused/).waitFor();
    await page.getByText(t["task.action"], { exact: true }).waitFor();
    await accessible(page, "waiting task");
    clean();
  });

  await step(`${lang}: the list is searched, filtered and live`, async () => {
    await goTo(page, t["nav.tasks"]);
    await page.getByRole("link", { name }).waitFor();
    const made = lang === "zh" ? "语音识别微调" : "speech fine-tuning";
    await page.getByText(t["state.live"], { exact: true }).waitFor();
    await submit(made, "true");
    await page.getByRole("row", { name: made }).getByText(t["phase.Completed"]).waitFor();
    await accessible(page, "tasks");
    await picture(page, `tasks-${lang}`);
    await page.getByLabel(t["tasks.search"]).fill(made);
    await page.getByRole("link", { name }).waitFor({ state: "detached" });
    await page.getByRole("link", { name: made }).waitFor();
    await page.getByLabel(t["tasks.search"]).fill("no such task");
    await page.getByText(t["tasks.noMatch"]).waitFor();
    await page.getByRole("button", { name: t["tasks.clear"] }).click();
    await page.getByRole("link", { name }).waitFor();
    clean();
  });

  await step(`${lang}: hostile strings execute nothing`, async () => {
    const id = await submit(hostile, `echo '${hostile}'; echo '${hostile}' >&2; exit 3`);
    await untilPhase(id, "Failed");
    await page.getByRole("link", { name: hostile }).first().click();
    await page.getByRole("heading", { name: hostile }).waitFor();
    await page.getByRole("log").getByText(hostile).first().waitFor();
    for (const tab of ["task.events", "task.replicas", "task.yaml"]) {
      await page.getByRole("tab", { name: t[tab], exact: true }).click();
      await page.getByRole("tabpanel").waitFor();
    }
    await goTo(page, t["nav.overview"]);
    await page.getByRole("link", { name: hostile }).first().waitFor();
    await page.goto(`${base}/tasks/%3Cscript%3Ewindow.hacked=3%3C%2Fscript%3E`);
    await page.getByRole("alert").waitFor();
    complaints.splice(0); // there is no such task
    must((await page.evaluate(() => window.hacked)) === undefined, "a hostile string was executed");
    await page.goto(`${base}/nowhere?x=${encodeURIComponent(hostile)}`);
    await page.getByText(t["state.notFound"]).waitFor();
    must((await page.evaluate(() => window.hacked)) === undefined, "a hostile address was executed");
    clean();
  });

  await step(`${lang}: dark, and on a narrow screen`, async () => {
    await page.goto(base);
    await page.getByRole("button", { name: t["nav.dark"] }).click();
    await page.getByRole("img", { name: /上海-1/ }).waitFor();
    await accessible(page, "overview, dark");
    await picture(page, `overview-${lang}-dark`);
    for (const [word, path] of [
      ["zones", "/zones"],
      ["create", "/create"],
      ["tasks", "/tasks"],
      ["task", `/tasks/${ids.waits}`],
    ]) {
      await page.goto(base + path);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.locator(".mantine-Skeleton-root").first().waitFor({ state: "detached" });
      await accessible(page, `${word}, dark`);
      if (lang === "zh") await picture(page, `${word}-${lang}-dark`);
    }
    await seeRecovery(scene, ids, `${lang}-dark`);
    await page.setViewportSize({ width: 390, height: 800 });
    await page.goto(`${base}/tasks/${ids.waits}`);
    await page.getByText(/QueuePaused/).waitFor();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    must(wide <= 0, `the page is ${wide} pixels too wide for a telephone`);
    await accessible(page, "narrow");
    clean();
  });

  await step(`${lang}: sign out`, async () => {
    await page.setViewportSize({ width: 1280, height: 860 });
    await page.getByRole("button", { name: t["nav.signOut"] }).click();
    await page.getByRole("heading", { name: t["signIn.title"] }).waitFor();
    must((await page.evaluate(() => sessionStorage.length)) === 0, "something of the session is left");
    clean();
  });
  await context.close();
}

/** The address that `fermi up` prints: it signs in, leaves nothing in the address, and works once. */
async function byCode(browser) {
  const { code } = await call("POST", "/session/code");
  const { context, page, complaints } = await open(browser, { locale: "en-US" });
  await page.goto(`${base}/#code=${code}`);
  await page
    .getByRole("button", { name: words.en["nav.signOut"] })
    .or(page.getByRole("button", { name: words.zh["nav.signOut"] }))
    .waitFor();
  must(!page.url().includes("code"), "the code is still in the address");
  must((await page.evaluate(() => sessionStorage.length)) === 0, "a token is kept beside the cookie");
  const cookies = await context.cookies();
  must(
    cookies.length === 1 && cookies[0].httpOnly && cookies[0].sameSite === "Strict",
    `cookies ${JSON.stringify(cookies)}`,
  );
  await page.reload();
  await page
    .getByRole("button", { name: words.en["nav.signOut"] })
    .or(page.getByRole("button", { name: words.zh["nav.signOut"] }))
    .click();
  await page
    .getByRole("heading", { name: words.en["signIn.title"] })
    .or(page.getByRole("heading", { name: words.zh["signIn.title"] }))
    .waitFor();
  must((await context.cookies()).length === 0, "the cookie is left after sign-out");
  must(complaints.length === 0, complaints.join("\n"));
  await page.goto("about:blank");
  await page.goto(`${base}/#code=${code}`);
  await page
    .getByRole("heading", { name: words.en["signIn.title"] })
    .or(page.getByRole("heading", { name: words.zh["signIn.title"] }))
    .waitFor();
  await context.close();
}

/** Passwords: a wrong one, too many wrong ones, the right one, changing it, and the end of every session. */
async function byPassword(browser, lang) {
  const t = words[lang];
  const user = `lin-${lang}`;
  const first = "correct horse 一";
  const second = "battery staple 二";
  await call("POST", "/users", { metadata: { name: user }, spec: { role: "member" } });
  await call("PUT", `/users/${user}/password`, { password: first });
  const locale = lang === "zh" ? "zh-CN" : "en-US";
  const here = await open(browser, { locale });
  const there = await open(browser, { locale });
  const inside = (page) => page.getByRole("button", { name: t["nav.signOut"], exact: true }).waitFor();
  for (const { page } of [here, there]) {
    await page.goto(base);
    const other = page.getByRole("button", { name: words[lang === "zh" ? "en" : "zh"]["nav.language"] });
    await page.getByRole("button", { name: /中文|EN/ }).waitFor();
    if (await other.isVisible()) await other.click();
  }
  const { page } = here;
  const alert = page.getByRole("alert");

  await step(`${lang}: a wrong password is refused, and guessing is slowed down`, async () => {
    await page.getByRole("button", { name: t["signIn.submit"] }).click();
    await page.getByText(t["signIn.emptyUser"]).waitFor();
    await signInByPassword(page, t, user, "not this one");
    await alert.getByText(lang === "zh" ? "用户名或密码错误。" : "The user or the password is wrong.").waitFor();
    await accessible(page, "a wrong password");
    await picture(page, `sign-in-wrong-${lang}`);
    // Another user, so that the one below need not wait.
    const slowed = page.getByText(lang === "zh" ? /登录失败次数过多，请在 \d+ 秒后再试。/ : /Try again in \d+ s\./);
    for (let i = 0; i < 10 && !(await slowed.isVisible()); i++) {
      const answered = page.waitForResponse((r) => r.url().endsWith("/api/v1/session"));
      await signInByPassword(page, t, "nobody", `guess ${i}`);
      await answered;
      await page.getByRole("button", { name: t["signIn.submit"] }).and(page.locator(":not([data-loading])")).waitFor();
    }
    await slowed.waitFor();
    await picture(page, `sign-in-slowed-${lang}`);
    here.complaints.splice(0); // the refusals
  });

  await step(`${lang}: a password signs in and is changed, which ends all sessions`, async () => {
    for (const one of [here, there]) {
      await signInByPassword(one.page, t, user, first);
      await inside(one.page);
    }
    must((await page.evaluate(() => sessionStorage.length)) === 0, "a token is kept beside the cookie");
    await page.getByRole("link", { name: user }).click();
    await page.getByRole("heading", { name: t["account.title"], exact: true }).waitFor();
    await page.getByText(t["account.byCookie"], { exact: true }).waitFor();
    await accessible(page, "account");
    await picture(page, `account-${lang}`);
    const field = (word) => page.getByLabel(t[word], { exact: true }).and(page.locator("input"));
    const change = page.getByRole("button", { name: t["account.change"], exact: true });
    await field("account.current").fill("not this one");
    await field("account.next").fill(second);
    await field("account.again").fill("something else");
    await change.click();
    await page.getByText(t["account.differ"]).waitFor();
    must(here.complaints.length === 0, here.complaints.join("\n"));
    await field("account.again").fill(second);
    await change.click();
    await alert.getByText(lang === "zh" ? "当前密码错误。" : "The current password is wrong.").waitFor();
    here.complaints.splice(0);
    await field("account.current").fill(first);
    await change.click();
    await page.getByText(t["signIn.passwordChanged"]).waitFor();
    await picture(page, `password-changed-${lang}`);
    await there.page.getByRole("heading", { name: t["signIn.title"] }).waitFor();
  });

  await step(`${lang}: signing out everywhere ends the other session`, async () => {
    for (const one of [here, there]) {
      await signInByPassword(one.page, t, user, second);
      await inside(one.page);
      one.complaints.splice(0); // streams of the session before were refused
    }
    await page.getByRole("link", { name: user }).click();
    await page.getByRole("button", { name: t["account.everywhere"], exact: true }).click();
    await page.getByText(t["signIn.everywhere"]).waitFor();
    await there.page.getByRole("heading", { name: t["signIn.title"] }).waitFor();
    must((await here.context.cookies()).length === 0, "the cookie is left");
    const strange = [...here.complaints, ...there.complaints].filter((c) => !/401/.test(c));
    must(strange.length === 0, strange.join("\n"));
  });
  await here.context.close();
  await there.context.close();
}

/** Bytes over the wire and time until the overview stands, each with an empty cache. */
async function measure(browser) {
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
  console.log(`ok   measured: first load ${(bytes / 1000).toFixed(1)} kB over the wire (at most 250)`);
  // A time depends on what else runs: it is printed here and held to its bound by `make bench-web`.
  const all = times.map(Math.round).join(" ");
  console.log(
    `ok   measured: interactive, median ${middle} ms (bound 1500), all ${all}; load ${loadavg()[0].toFixed(1)} on ${cpus().length} cores`,
  );
  must(bytes > 50_000 && bytes <= budget.bytes, `the first load has ${bytes} bytes`);
  return { bytes, times };
}

await mkdir(pictures, { recursive: true });
const stop = await startPlatform();
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
});
if (process.argv[2] === "bench") {
  const { bytes, times } = await measure(browser);
  await browser.close();
  await stop();
  await writeFile(process.env.FERMI_WEB_REPORT ?? "/dev/stdout", JSON.stringify({ bytes, times }));
  process.exit(0);
}
try {
  await step("numbers", () => measure(browser));
  const ids = {};
  await step("work to look at", async () => {
    const h800 = { resources: { accelerators: { type: "H800", count: 8 } }, replicas: 4 };
    await submit("GPT大模型分布式训练", "sleep 600", h800);
    await submit("图像分类 ResNet", "sleep 600", { resources: { accelerators: { count: 4 } }, replicas: 3 });
    const dies = await submit("数据预处理", "echo no such file >&2; exit 3");
    ids.done = await submit("带输出的任务", 'echo forty-two > "$FERMI_OUTPUT/result.txt"');
    await call("POST", "/projects", { metadata: { name: "quiet", displayName: "安静的项目" } });
    await call("POST", "/queues", { metadata: { name: "halted" }, spec: { paused: true, projects: ["default"] } });
    ids.hurt = await hurtTask({ call, text, untilPhase, must });
    await startHosts({ call, untilPhase });
    ids.waits = await submit("等待中的任务", "true", {}, { queue: "halted" });
    await untilPhase(dies, "Failed");
    await untilPhase(ids.done, "Completed");
  });
  const scene = { browser, base, words, open, step, must, call, accessible, picture };
  for (const lang of ["zh", "en"]) await seeMember(scene, lang);
  if (process.argv[2] !== "member") {
    await step("a one-time code signs in, once", () => byCode(browser));
    for (const lang of ["zh", "en"]) await byPassword(browser, lang);
    for (const lang of ["zh", "en"]) await tour(browser, lang, ids);
  }
} finally {
  await browser.close();
  await stop();
}
console.log(failed === 0 ? "ok   the console" : `FAIL ${failed} scenarios`);
process.exitCode = failed === 0 ? 0 : 1;
