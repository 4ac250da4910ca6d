// Scenes of the suite about environments, their terminals, services and the playground, and cards that fail.
const pause = () => new Promise((done) => setTimeout(done, 50));

/** Waits until something of the API is so. */
async function until(call, path, is) {
  for (const end = Date.now() + 60_000; ; await pause()) {
    const data = await call("GET", path);
    if (is(data)) return data;
    if (Date.now() > end) throw new Error(`${path} stays ${JSON.stringify(data)}`);
  }
}

/** What the shown terminal has on its screen. */
function screen(page) {
  return page.locator(".shell-screen .xterm-rows");
}

/** Types a line into the shown terminal once it is there. */
export async function typeLine(page, line) {
  await page.locator('.shell-screen[data-state="open"]').waitFor();
  await page.locator(".shell-screen textarea").first().focus();
  await page.keyboard.type(line);
  await page.keyboard.press("Enter");
}

/** Waits for a text on the screen, wherever lines break. */
export async function seeOnScreen(page, text, must) {
  const found = await page
    .waitForFunction(
      (want) => (document.querySelector(".shell-screen .xterm-rows")?.textContent ?? "").includes(want),
      text,
      { timeout: 30_000 },
    )
    .catch(() => undefined);
  must(found, `no ${text} in the terminal: ${await screen(page).textContent()}`);
}

/** Somebody changes an environment: some of it while it runs, the rest, with what is refused at its field, once it is stopped. */
async function changeEnvironment({ page, t, accessible, picture, must, complaints, clean }, running, lang) {
  await page.getByRole("button", { name: t["env.change"], exact: true }).click();
  const dialog = page.getByRole("dialog");
  const field = (word) => dialog.getByLabel(t[word] ?? word, { exact: true });
  const save = () => dialog.getByRole("button", { name: t["env.changeConfirm"], exact: true }).click();
  await field("work.cpu").waitFor();
  must((await field("work.cpu").inputValue()) === "2", "the form does not show what the environment has");
  if (running) {
    await dialog.getByText(t["env.changeRuns"], { exact: true }).waitFor();
    must(await field("work.cpu").isDisabled(), "cores can be changed while it runs");
    must(await field("create.image").isDisabled(), "the image can be changed while it runs");
    await accessible(page, "change a running environment");
    await picture(page, `environment-change-running-${lang}`);
    await field("env.ports").fill("6006");
    await save();
    await dialog.waitFor({ state: "detached" });
    clean();
    return;
  }
  must((await field("env.ports").inputValue()) === "6006", "the port that was added while it ran is not there");
  await field("work.cpu").fill("5000");
  await field("env.storage").fill("90000");
  await field("env.stopsAt").fill("every day");
  await save();
  await dialog.locator('[aria-invalid="true"]').first().waitFor();
  for (const word of ["work.cpu", "env.storage", "env.stopsAt"]) {
    must((await field(word).getAttribute("aria-invalid")) === "true", `${word} is not marked`);
  }
  await accessible(page, "refused change");
  await picture(page, `environment-change-refused-${lang}`);
  must(
    complaints.splice(0).every((c) => /400/.test(c)),
    "another complaint than the refusal",
  );
  await field("work.cpu").fill("3");
  await field("env.storage").fill("60");
  await field("env.stopsAt").fill("0 19 * * *");
  await field(t["work.variableValue"].replace("{{n}}", "1")).fill("bye");
  await save();
  await dialog.waitFor({ state: "detached" });
  await page.getByText("60Gi", { exact: true }).waitFor();
  clean();
}

/** Somebody makes an environment, works in its terminal, leaves, comes back to the same shell, stops and deletes it. */
export async function seeEnvironment({ page, base, t, accessible, picture, must, clean, complaints }, name, lang) {
  await page.goto(`${base}/environments`);
  await page.getByText(t["env.empty"]).waitFor();
  await page.getByRole("link", { name: t["env.create"], exact: true }).first().click();
  await page.getByRole("heading", { name: t["env.create"] }).waitFor();
  const field = (word) => page.getByLabel(t[word], { exact: true });
  // What is wrong is said at its field, all at once.
  await field("work.cpu").fill("5000");
  await field("env.storage").fill("90000");
  await page.getByRole("button", { name: t["env.submit"], exact: true }).click();
  await page.getByText(t["work.nameEmpty"]).waitFor();
  for (const word of ["create.displayName", "work.cpu", "env.storage"]) {
    must((await field(word).getAttribute("aria-invalid")) === "true", `${word} is not marked`);
  }
  await accessible(page, "refused environment");
  await picture(page, `environment-refused-${lang}`);
  must(
    complaints.splice(0).every((c) => /400/.test(c)),
    "another complaint than the refusal",
  );
  await field("create.displayName").fill(name);
  await field("work.cpu").fill("2");
  await field("env.storage").fill("50");
  await page.getByRole("button", { name: t["work.variableAdd"], exact: true }).click();
  await page.getByLabel(t["work.variableName"].replace("{{n}}", "1"), { exact: true }).fill("GREETING");
  await page.getByLabel(t["work.variableValue"].replace("{{n}}", "1"), { exact: true }).fill("hello");
  await accessible(page, "create environment");
  await picture(page, `environment-create-${lang}`);
  await page.getByRole("button", { name: t["env.submit"], exact: true }).click();
  await page.getByRole("heading", { name }).waitFor();
  await page.getByText(t["env.state.Running"], { exact: true }).first().waitFor();
  await page.getByRole("tab", { name: t["shell.title"], exact: true }).click();
  await page.getByRole("button", { name: t["shell.open"], exact: true }).click();
  await typeLine(page, "echo $GREETING-$((6*7)); kept=yes; pwd > where");
  await seeOnScreen(page, "hello-42", must);
  await accessible(page, "environment");
  await picture(page, `environment-${lang}`);
  await page.getByRole("tab", { name: t["ways.title"], exact: true }).click();
  await page.getByRole("button", { name: t["ways.openOf"].replace("{{name}}", "JupyterLab"), exact: true }).waitFor();
  await accessible(page, "ways in");
  await picture(page, `environment-ways-${lang}`);
  await page.getByRole("tab", { name: t["shell.title"], exact: true }).click();
  clean();
  // Loaded again, it is the same shell, with what it printed.
  await page.reload();
  await seeOnScreen(page, "hello-42", must);
  await typeLine(page, "echo kept=$kept");
  await seeOnScreen(page, "kept=yes", must);
  await typeLine(page, "exit 7");
  await page.getByText(t["shell.ended"].replace("{{code}}", "7")).waitFor();
  await page.getByRole("button", { name: t["shell.close"], exact: true }).click();
  await page.getByRole("button", { name: t["shell.open"], exact: true }).waitFor();
  clean();
  await page.getByRole("tab", { name: t["task.events"], exact: true }).click();
  await page.getByRole("tabpanel").waitFor();
  const change = (running) =>
    changeEnvironment({ page, t, accessible, picture, must, complaints, clean }, running, lang);
  await change(true);
  await page.getByRole("button", { name: t["task.stop"], exact: true }).click();
  await page.getByRole("dialog").getByText(t["env.stopText"]).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: t["env.stopConfirm"], exact: true }).click();
  await page.getByText(t["env.state.Stopped"], { exact: true }).first().waitFor();
  await change(false);
  await page.getByRole("button", { name: t["env.start"], exact: true }).click();
  await page.getByText(t["env.state.Running"], { exact: true }).first().waitFor();
  await page.getByRole("tab", { name: t["shell.title"], exact: true }).click();
  await page.getByRole("button", { name: t["shell.open"], exact: true }).click();
  await typeLine(page, "cat where && echo there, $GREETING"); // its home is as it was, its variable is not
  await seeOnScreen(page, "there, bye", must);
  await page.getByRole("navigation").getByRole("link", { name: t["nav.environments"] }).click();
  await page.getByRole("row", { name }).getByText(t["env.state.Running"]).waitFor();
  await accessible(page, "environments");
  await picture(page, `environments-${lang}`);
  await page.getByRole("link", { name, exact: true }).click();
  await page.getByRole("button", { name: t["work.delete"], exact: true }).click();
  await page.getByRole("dialog").getByText(t["env.deleteText"]).waitFor();
  await accessible(page, "delete environment");
  await picture(page, `environment-delete-${lang}`);
  await page.getByRole("dialog").getByRole("button", { name: t["env.deleteConfirm"], exact: true }).click();
  await page.getByText(t["env.empty"]).waitFor();
  clean();
}

/** Somebody deploys the sample, asks it, looks at how programs reach it, and changes it. */
export async function seeService({ page, base, t, accessible, picture, must, clean, complaints }, name, lang) {
  await page.goto(`${base}/services/create`);
  await page.getByLabel(t["create.displayName"], { exact: true }).fill(name);
  await accessible(page, "create service");
  await picture(page, `service-create-${lang}`);
  // Zones and a schema: what is wrong with them stands at their rows, whoever finds it.
  const submit = page.getByRole("button", { name: t["svc.submit"], exact: true });
  const choose = async (label, option) => {
    await page.getByRole("combobox", { name: label }).first().click();
    await page.getByRole("option", { name: option, exact: true }).click();
  };
  await page.getByRole("button", { name: t["svc.zoneAdd"], exact: true }).click();
  await page.getByRole("button", { name: t["svc.zoneAdd"], exact: true }).click();
  const weights = page.getByLabel(t["svc.zoneWeight"], { exact: true });
  await weights.nth(1).fill("5000");
  await choose(t["svc.format"], t["svc.format.json"]);
  const schema = page.getByLabel(t["svc.schemaField"], { exact: true });
  await schema.fill("[1]");
  await submit.click();
  await page.getByText(t["svc.schemaBad"], { exact: true }).waitFor();
  await schema.fill("type: float");
  await submit.click();
  await page.locator('[aria-invalid="true"]').nth(1).waitFor();
  must((await weights.nth(1).getAttribute("aria-invalid")) === "true", "the weight is not marked");
  must((await weights.nth(0).getAttribute("aria-invalid")) !== "true", "the weight of another row is marked");
  must((await schema.getAttribute("aria-invalid")) === "true", "the schema is not marked");
  await accessible(page, "refused service");
  await picture(page, `service-refused-${lang}`);
  must(
    complaints.splice(0).every((c) => /400/.test(c)),
    "another complaint than the refusal",
  );
  await schema.fill("type: object");
  for (const n of [2, 1]) await page.getByLabel(t["svc.zoneRemove"].replace("{{n}}", n), { exact: true }).click();
  await submit.click();
  await page.getByRole("heading", { name }).waitFor();
  await page.getByText(t["svc.state.Running"], { exact: true }).first().waitFor({ timeout: 60_000 });
  const ask = page.getByRole("textbox", { name: t["play.ask"], exact: true });
  await ask.fill("1.5 -0.5");
  await ask.press("Enter");
  await page
    .getByRole("log")
    .getByText(/is on spiral [01], probability/)
    .waitFor();
  await page.getByText(t["play.first"].split("{{")[0]).first().waitFor();
  await accessible(page, "service");
  await picture(page, `service-${lang}`);
  await page.getByText(t["play.request"], { exact: true }).click();
  await page.getByRole("button", { name: t["play.send"], exact: true }).click();
  await page.getByLabel(t["play.answer"], { exact: true }).getByText('"spiral"').waitFor();
  clean();
  await page.getByRole("tab", { name: t["svc.access"], exact: true }).click();
  await page.getByText("/v1/chat/completions").first().waitFor();
  await page.getByLabel(t["svc.keyName"], { exact: true }).fill(`bot-${lang}`);
  await page.getByRole("button", { name: t["svc.keyMake"], exact: true }).click();
  await page.getByText(t["svc.keyMade"], { exact: true }).waitFor();
  const key = await page
    .getByRole("status")
    .getByText(/^fermi_/)
    .textContent();
  const answer = await fetch(`${base}/v1/models`, { headers: { Authorization: `Bearer ${key}` } });
  must(answer.ok && JSON.stringify(await answer.json()).includes("model"), `the key does not work: ${answer.status}`);
  await accessible(page, "service access");
  await picture(page, `service-access-${lang}`);
  await page.getByRole("button", { name: t["svc.scale"], exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(t["create.replicas"], { exact: true }).fill("2");
  await dialog.getByRole("button", { name: t["svc.scale"], exact: true }).click();
  await page.getByText("2 / 2").first().waitFor({ timeout: 60_000 });
  await page.getByRole("tab", { name: t["task.replicas"], exact: true }).click();
  await page.getByRole("row").nth(2).waitFor();
  await accessible(page, "service replicas");
  await picture(page, `service-replicas-${lang}`);
  await page.getByRole("tab", { name: t["svc.figures"], exact: true }).click();
  await page.getByText(t["svc.fig.qps"], { exact: true }).waitFor({ timeout: 60_000 }); // gateways tell what they carried every few seconds
  await page.getByText(t["svc.fig.revisions"], { exact: true }).waitFor();
  await accessible(page, "service figures");
  await picture(page, `service-figures-${lang}`);
  await page.getByRole("tab", { name: t["svc.traffic"], exact: true }).click();
  await page.getByLabel(t["svc.trafficOn"], { exact: true }).check();
  await page.getByLabel(t["svc.trafficSteps"], { exact: true }).fill("50, 5");
  await page.getByText(t["svc.trafficStepsBad"], { exact: true }).waitFor();
  await page.getByLabel(t["svc.trafficSteps"], { exact: true }).fill("5, 50, 100");
  await page.getByRole("button", { name: t["svc.ruleAdd"], exact: true }).click();
  await page.getByLabel(t["svc.ruleName"], { exact: true }).fill("X-Group");
  await accessible(page, "service traffic");
  await picture(page, `service-traffic-${lang}`);
  await page.getByRole("button", { name: t["svc.editConfirm"], exact: true }).click();
  await page.getByText(t["svc.trafficSaved"], { exact: true }).waitFor();
  for (const tab of ["svc.revisions", "task.log", "task.events", "task.yaml"]) {
    await page.getByRole("tab", { name: t[tab], exact: true }).click();
    await page.getByRole("tabpanel").waitFor();
  }
  await page.getByRole("navigation").getByRole("link", { name: t["nav.services"] }).click();
  await page.getByRole("row", { name }).getByText("2 / 2").waitFor();
  await accessible(page, "services");
  await picture(page, `services-${lang}`);
  await page.getByRole("link", { name, exact: true }).click();
  await page.getByRole("button", { name: t["work.delete"], exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: t["svc.deleteConfirm"], exact: true }).click();
  await page.getByText(t["svc.empty"]).waitFor({ timeout: 60_000 });
  clean();
}

/** A card fails in a drill, is tested and returns; a machine that would be lost and a zone that would be out are looked at. */
export async function seeCards({ page, base, t, accessible, picture, call, clean }, lang) {
  await page.goto(`${base}/zones`);
  await page.getByRole("link", { name: "shanghai-1-n32", exact: true }).click();
  await page.getByRole("heading", { name: "shanghai-1-n32" }).waitFor();
  for (const heal of [false, true]) {
    await page.getByRole("button", { name: t["node.fault"], exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel(t["node.card"], { exact: true }).fill(heal ? "3" : "2");
    if (!heal) await dialog.getByRole("switch", { name: t["node.heal"] }).press("Space");
    else {
      await accessible(page, "drill");
      await picture(page, `node-drill-${lang}`);
    }
    await dialog.getByRole("button", { name: t["node.faultConfirm"], exact: true }).click();
    await dialog.waitFor({ state: "detached" });
  }
  const of = (node, i) => (node.status.devices ?? []).find((d) => d.device === i);
  await until(
    call,
    "/nodes/shanghai-1-n32",
    (n) => of(n, 2)?.state === "out" && of(n, 3)?.state === "open" && of(n, 3)?.test?.passed,
  );
  await page.getByText(t["node.state.out"], { exact: true }).waitFor();
  await page.locator("summary").first().click();
  await page.getByText("xid-79").first().waitFor();
  await accessible(page, "node");
  await picture(page, `node-${lang}`);
  const back = t["node.verbOf"].replace("{{verb}}", t["node.return"]).replace("{{n}}", "2");
  await page.getByRole("button", { name: back, exact: true }).click();
  await page.getByText(t["node.state.out"], { exact: true }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: t["node.lost"], exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: t["node.lostConfirm"], exact: true }).waitFor();
  await accessible(page, "lost node");
  await picture(page, `node-lost-${lang}`);
  await page.getByRole("dialog").getByRole("button", { name: t["task.cancel"], exact: true }).last().click();
  await page.goto(`${base}/zones`);
  await page.getByRole("button", { name: t["zones.takeOut"], exact: true }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: t["zones.takeOutConfirm"], exact: true }).waitFor();
  await page.getByRole("dialog").locator(".mantine-Skeleton-root").first().waitFor({ state: "detached" });
  await accessible(page, "zone outage");
  await picture(page, `zone-outage-${lang}`);
  await page.getByRole("dialog").getByText(/\d+/).first().waitFor();
  await page.getByRole("dialog").getByRole("button", { name: t["task.cancel"], exact: true }).last().click();
  clean();
}

/** A shell beside a rank of a running task, with a token: a browser can't send it as a header. */
export async function seeTaskShell({ page, base, t, accessible, picture, must, clean }, id, lang) {
  await page.goto(`${base}/tasks/${id}`);
  await page.getByRole("tab", { name: t["shell.title"], exact: true }).click();
  await page.getByLabel(t["shell.rank"], { exact: true }).fill("1");
  await page.getByRole("button", { name: t["shell.open"], exact: true }).click();
  await typeLine(page, "echo rank=$FERMI_RANK.");
  await seeOnScreen(page, "rank=1.", must);
  await accessible(page, "task terminal");
  await picture(page, `task-terminal-${lang}`);
  await page.getByRole("button", { name: t["shell.close"], exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: t["shell.closeConfirm"], exact: true }).click();
  await page.getByRole("button", { name: t["shell.open"], exact: true }).waitFor();
  clean();
}
