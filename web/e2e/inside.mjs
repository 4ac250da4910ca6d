// Scenes of the suite about tasks inside others, and about what a task uses.
const pause = () => new Promise((done) => setTimeout(done, 50));

/** Starts two environments of different devices, in different zones. */
export async function startHosts({ call, untilPhase }) {
  for (const [name, displayName, type, count, zone] of [
    ["env-a", "训练环境 A", "V100", 2, "beijing-1"],
    ["env-b", "训练环境 B", "A100", 1, "shanghai-1"],
  ]) {
    const resources = { accelerators: { type, count }, cpu: "2", memory: "1Gi" };
    const roles = [{ command: ["sleep", "3600"], resources }];
    await call("POST", "/training-tasks", {
      metadata: { name, displayName },
      spec: { roles, zones: { allow: [zone] } },
    });
    await untilPhase(name, "Running");
  }
}

/** Cards are chosen, summed up and warned about, another becomes the master, and a task runs in them. */
export async function seeInside({ page, base, t, accessible, picture, must }, lang) {
  const word = (key, values) => Object.entries(values).reduce((s, [k, v]) => s.replace(`{{${k}}}`, v), t[key]);
  await page.goto(`${base}/create`);
  await page.getByText(t["inside.modeExisting"], { exact: true }).click();
  await page.getByLabel(t["create.displayName"], { exact: true }).fill(`inside ${lang}`);
  await page.getByLabel(t["create.command"], { exact: true }).fill("echo rank $FERMI_RANK on $FERMI_NODE");
  const card = (name) => page.getByTestId(`host-${name}`);
  await card("env-a").click();
  await page.getByText(t["inside.single"]).waitFor();
  await card("env-b").click();
  await page.getByText(word("inside.chosen", { n: 2 }), { exact: true }).waitFor();
  const sum = page.getByTestId("together").filter({ hasText: /V100, A100|A100, V100/ });
  await sum.waitFor();
  await sum.getByText(t["inside.far"]).waitFor(); // two zones
  await sum
    .getByRole("listitem")
    .filter({ hasText: /A100.*V100/ })
    .waitFor();
  await sum
    .getByRole("listitem")
    .filter({ hasText: /beijing-1.*shanghai-1/ })
    .waitFor();
  const yaml = page.getByRole("textbox", { name: "YAML" });
  const holds = async (words) => must((await yaml.inputValue()).includes(words), await yaml.inputValue());
  await holds("inside: [env-a, env-b]");
  const master = (name) => card(name).getByText(t["inside.master"], { exact: true }).waitFor();
  await master("env-a");
  await page.getByTestId("distributed").getByRole("combobox", { name: t["inside.master"] }).click();
  await page.getByRole("option", { name: "env-b" }).click();
  await master("env-b");
  await holds("inside: [env-b, env-a]");
  await card("env-b").click(); // the master is taken back: the one that is left runs alone
  await page.getByText(t["inside.single"]).waitFor();
  await holds("inside: [env-a]");
  await card("env-a").click();
  await card("env-b").click();
  await card("env-a").click();
  await sum.waitFor();
  await master("env-b");
  await accessible(page, "inside");
  await picture(page, `inside-${lang}`);
  await page.getByRole("button", { name: t["create.submit"], exact: true }).click();
  await page.getByRole("heading", { name: `inside ${lang}` }).waitFor();
  await page.getByText(t["phase.Completed"], { exact: true }).first().waitFor();
  await page.getByRole("log").getByText("rank 0 on shanghai-1-").first().waitFor();
}

/** Stopping an environment asks about the task inside it, names it, and ends both. */
export async function seeBothEnd({ page, base, t, accessible, picture, call, untilPhase }, lang) {
  const [env, guest] = [`env-${lang}`, `guest-${lang}`];
  const command = ["sleep", "3600"];
  await call("POST", "/training-tasks", { metadata: { name: env }, spec: { roles: [{ command }] } });
  await untilPhase(env, "Running");
  await call("POST", "/training-tasks", {
    metadata: { name: guest },
    spec: { inside: [env], roles: [{ command }] },
  });
  await untilPhase(guest, "Running");
  while ((await call("GET", `/training-tasks/${env}`)).status.inUseBy !== guest) await pause();
  await page.goto(`${base}/tasks/${env}`);
  await page.getByRole("button", { name: t["task.stop"], exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(t["task.endsToo"].replace("{{name}}", guest)).waitFor();
  await accessible(page, "stop both");
  await picture(page, `stop-both-${lang}`);
  await dialog.getByRole("button", { name: t["task.stopBoth"], exact: true }).click();
  await page.getByText(t["phase.Stopped"], { exact: true }).first().waitFor();
  await page.goto(`${base}/tasks/${guest}`);
  await page.getByText(/EnvironmentStopped/).waitFor();
  await page.getByText(t["phase.Stopped"], { exact: true }).first().waitFor();
}

/** The tab with what a task uses, once its launchers told. */
export async function seeUse({ page, base, t, accessible, picture, call }, id, lang) {
  while (!(await call("GET", `/training-tasks/${id}`)).status.use) await pause();
  await page.goto(`${base}/tasks/${id}`);
  await page.getByRole("tab", { name: t["use.tab"], exact: true }).click();
  for (const word of ["use.cores", "use.memory", "use.saves", "recovery.mean"]) {
    await page.locator(".figures").getByText(t[word], { exact: true }).waitFor();
  }
  await accessible(page, "use");
  await picture(page, `use-${lang}`);
}

/** The tab with the curves of a task: drawn, over time, with a logarithmic axis, smoothed, beside another's, and zoomed into. */
export async function seeCurves({ page, base, t, accessible, picture, call }, id, other, lang) {
  while ((await call("GET", `/training-tasks/${id}/metrics`)).items.length === 0) await pause();
  await page.goto(`${base}/tasks/${id}`);
  await page.getByRole("tab", { name: t["curves.tab"], exact: true }).click();
  const chart = page.locator(".chart canvas").first();
  await chart.waitFor();
  await accessible(page, "curves");
  await picture(page, `curves-${lang}`);
  await page.getByRole("switch", { name: t["curves.log"] }).press("Space");
  await page.getByRole("switch", { name: t["curves.ranks"] }).press("Space");
  await page.getByRole("slider", { name: t["curves.smooth"] }).press("End");
  if (other) {
    await page
      .getByRole("combobox", { name: t["curves.compare"] })
      .or(page.getByLabel(t["curves.compare"]))
      .first()
      .click();
    await page.getByRole("option", { name: other }).click();
    await page.keyboard.press("Escape");
  }
  await page.getByText(t["curves.time"], { exact: true }).click();
  await page.locator(".chart canvas").first().waitFor();
  await picture(page, `curves-compared-${lang}`);
  await page.getByText(t["curves.step"], { exact: true }).click();
  await page.locator(".chart canvas").first().waitFor();
  const over = page.locator(".chart .u-over").first();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await page.getByRole("button", { name: t["curves.whole"], exact: true }).waitFor();
  await picture(page, `curves-zoomed-${lang}`);
  await page.getByRole("button", { name: t["curves.whole"], exact: true }).click();
  await page.getByRole("button", { name: t["curves.whole"], exact: true }).waitFor({ state: "hidden" });
}
