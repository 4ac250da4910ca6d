// A walk through the console, page by page.
import { readFile } from "node:fs/promises";
import { seeCheckpoints } from "./checkpoints.mjs";
import { seeBothEnd, seeCurves, seeInside, seeUse } from "./inside.mjs";
import {
  accessible,
  call,
  goTo,
  must,
  open,
  picture,
  platform,
  signIn,
  submit,
  test,
  untilPhase,
  words,
  work,
} from "./scene.mjs";
import { seeFigures, seeNoRecovery, seeRecipe, seeRecovery } from "./training.mjs";
import { seeCards, seeTaskShell } from "./works.mjs";

const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>`;

test.describe
  .serial("tour", () => {
    let lang, t, base, ids, name, context, page, complaints, scene;
    const clean = () => must(complaints.length === 0, complaints.splice(0).join("\n"));

    test.beforeAll(async ({ browser, lang: chosen }) => {
      lang = chosen;
      t = words[lang];
      base = platform().base;
      ids = await work();
      name = lang === "zh" ? "我的第一个任务" : "my first task";
      ({ context, page, complaints } = await open(browser, lang));
      scene = { page, base, t, accessible, picture, must, call };
    });

    test.afterAll(() => context?.close());

    test("a wrong token is refused in words", async () => {
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

    test("sign in and see zones and devices", async () => {
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

    test("create a task from the form, the YAML beside it", async () => {
      await goTo(page, t["nav.create"]);
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

    test("watch its log live", async () => {
      const log = page.getByRole("log");
      await log.getByText("step=3 ").waitFor();
      await page.getByText(t["phase.Running"], { exact: true }).waitFor();
      await log.getByText("step=15 ").waitFor();
      await accessible(page, "task");
      await picture(page, `task-${lang}`);
      clean();
    });

    test("stop it", async () => {
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

    test("outputs are downloaded", async () => {
      await page.goto(`${base}/tasks/${ids.done}`);
      await page.getByRole("tab", { name: t["task.outputs"], exact: true }).click();
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: /result\.txt/ }).click(),
      ]);
      must((await readFile(await download.path(), "utf8")) === "forty-two\n", "the file is not what was written");
      clean();
    });

    test("what failures cost is drawn", async () => {
      await seeNoRecovery(scene, ids.done);
      await seeRecovery(scene, ids, lang);
      clean();
    });

    test("a recipe is shown before it is used", async () => {
      await seeRecipe(scene, lang);
      clean();
    });

    test("a task inside others is chosen, and runs there", async () => {
      await seeInside(scene, lang);
      clean();
    });

    test("an environment is stopped with the task inside it", async () => {
      await seeBothEnd({ ...scene, untilPhase }, lang);
      clean();
    });

    test("checkpoints are drawn, pinned and gone back to", async () => {
      await seeCheckpoints({ ...scene, untilPhase }, lang);
      clean();
    });

    test("what a task uses stands beside the goals", async () => {
      await seeUse(scene, ids.hurt, lang);
      clean();
    });

    test("curves are drawn, compared and zoomed into", async () => {
      await seeCurves(scene, ids.hurt, "", lang);
      clean();
    });

    test("a shell beside a rank, with a token", async () => {
      await seeTaskShell({ ...scene, clean }, ids.hurt, lang);
    });

    test("a card that fails is seen, and so is what a lost machine or zone would cost", async () => {
      await seeCards({ ...scene, clean }, lang);
    });

    test("a task that waits says why", async () => {
      await page.goto(`${base}/tasks/${ids.waits}`);
      await page.getByText(/QueuePaused/).waitFor();
      await page.getByText(t["task.action"], { exact: true }).waitFor();
      await accessible(page, "waiting task");
      clean();
    });

    test("the list is searched, filtered and live", async () => {
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

    test("hostile strings execute nothing", async () => {
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
      await call("DELETE", `/training-tasks/${id}`); // it would stand in the next language's pictures
    });

    test("dark, and on a narrow screen", async () => {
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

    test("sign out", async () => {
      await page.setViewportSize({ width: 1280, height: 860 });
      await page.getByRole("button", { name: t["nav.signOut"] }).click();
      await page.getByRole("heading", { name: t["signIn.title"] }).waitFor();
      must((await page.evaluate(() => sessionStorage.length)) === 0, "something of the session is left");
      clean();
    });
  });
