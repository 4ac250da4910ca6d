// Scenes of the suite about training: what failures cost a task, and what a framework makes of one.
import { readFile } from "node:fs/promises";

const pause = () => new Promise((done) => setTimeout(done, 50));

/** Starts a task of two ranks, kills one twice, and waits until it came back both times. */
export async function hurtTask({ call, text, untilPhase, must }) {
  const command = ["fermi", "sample", "train", "--steps", "100000", "--step-time", "50ms"];
  const { taskId: id } = await call("POST", "/training-tasks", {
    metadata: { displayName: "会恢复的任务" },
    spec: { roles: [{ command, ranks: 2 }], restartPolicy: { maxRestarts: 20 } },
  });
  await untilPhase(id, "Running");
  // What fails before its first step has no way back to it.
  while (!/step=/.test(await text(`/training-tasks/${id}/logs?tail=20`))) await pause();
  for (const n of [1, 2]) {
    await hurt(call, id, n - 1);
    for (;;) {
      const { status } = await call("GET", `/training-tasks/${id}`);
      must(!["Completed", "Failed", "Stopped"].includes(status.phase), `${id} is ${status.phase}`);
      if (status.interruptions?.recovered === n) break;
      await pause();
    }
  }
  return id;
}

/** Kills a rank; on a machine that is busy its launcher may have to connect again first. */
async function hurt(call, id, rank) {
  for (;;) {
    try {
      return await call("POST", `/training-tasks/${id}/fault`, { rank, kind: "kill" });
    } catch (error) {
      if (!String(error).includes("NotAttached")) throw error;
      await pause();
    }
  }
}

/** The tab that shows what failures cost: of a task that was hurt, and of one that was not. */
export async function seeRecovery({ page, base, t, accessible, picture, must }, ids, name) {
  await page.goto(`${base}/tasks/${ids.hurt}`);
  await page.getByRole("tab", { name: t["recovery.tab"], exact: true }).click();
  const bars = page.locator(".recoveries .track");
  await bars.first().waitFor();
  must((await bars.count()) === 3, `${await bars.count()} bars for two recoveries and their mean`);
  const words = await bars.nth(1).getAttribute("aria-label");
  for (const phase of ["detect", "attribute", "place", "start", "restore", "catchUp"]) {
    must(words.includes(t[`recovery.${phase}`]), `no ${phase} in ${words}`);
  }
  const rank = t["recovery.rank"].replace("{{n}}", "[01]");
  must(new RegExp(`: ${rank} · \\S+; `).test(words), `nobody failed in ${words}`);
  const from = t["recovery.from.memory"].replace("{{step}}", "\\d+");
  must(new RegExp(`; ${from}$`).test(words), `it came from nowhere in ${words}`);
  await page.getByText("killed × 2").waitFor();
  await page.getByText(t["recovery.within"]).waitFor();
  await accessible(page, "recovery");
  await picture(page, `recovery-${name}`);
}

/** How well all tasks do, and those of one project, on the page people land on. */
export async function seeFigures({ page, t, must }) {
  const bars = page.locator(".gauge");
  await bars.nth(3).waitFor();
  await page.getByText(/killed × 2/).waitFor();
  const mean = await bars.nth(2).getAttribute("aria-label");
  must(mean.includes(t["recovery.mean"]) && mean.includes(t["unit.second"]), `no mean in ${mean}`);
  must((await page.locator(".gauge .goal").count()) === 3, "not three goals");
  const project = page.getByLabel(t["figures.project"], { exact: true });
  await project.selectOption("quiet");
  await page.getByText(/killed × 2/).waitFor({ state: "detached" });
  must((await page.getByText(t["figures.none"], { exact: true }).count()) === 4, "figures of a project without tasks");
  await project.selectOption("");
  await page.getByText(/killed × 2/).waitFor();
}

/** A task that never failed says so. */
export async function seeNoRecovery({ page, base, t, accessible }, id) {
  await page.goto(`${base}/tasks/${id}`);
  await page.getByRole("tab", { name: t["recovery.tab"], exact: true }).click();
  await page.getByText(t["recovery.empty"]).waitFor();
  await accessible(page, "no recovery");
}

const deepspeed = `metadata: {displayName: recipe}
spec:
  framework: deepspeed
  roles: [{replicas: 2, ranks: 2, command: [python3, train.py], resources: {accelerators: {count: 2, type: H800}}}]
`;

/** The drawer on the create page: what the framework makes of the manifest, and its files. */
export async function seeRecipe({ page, base, t, accessible, picture, must }, name) {
  await page.goto(`${base}/create`);
  const yaml = page.getByRole("textbox", { name: "YAML" });
  await yaml.fill(deepspeed);
  await page.getByRole("button", { name: t["recipe.show"], exact: true }).click();
  const drawer = page.getByRole("dialog");
  await drawer.getByText(/MASTER_ADDR=/).waitFor();
  await accessible(page, "recipe");
  await picture(page, `recipe-${name}`);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    drawer.getByRole("button", { name: t["recipe.download"].replace("{{name}}", "ds_config.json") }).click(),
  ]);
  const config = JSON.parse(await readFile(await download.path(), "utf8"));
  must(config.zero_optimization !== undefined, `no ds_config: ${JSON.stringify(config)}`);
  await drawer.getByRole("button", { name: t["recipe.close"], exact: true }).click();
  await drawer.waitFor({ state: "detached" });
}
