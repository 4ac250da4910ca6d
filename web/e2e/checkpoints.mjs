// The scene about checkpoints: drawn by step and tier, pinned, and gone back to.
const pause = () => new Promise((done) => setTimeout(done, 50));

/** Starts a task that saves often, and waits until some of its steps are checkpoints. */
export async function savingTask({ call, untilPhase }, displayName) {
  const command = ["fermi", "sample", "train", "--steps", "1000000", "--step-time", "50ms"];
  const { taskId: id } = await call("POST", "/training-tasks", {
    metadata: { displayName },
    spec: {
      roles: [{ command, ranks: 2 }],
      checkpoint: { local: { everySteps: 20, keep: { last: 6 } }, shared: { everySteps: 40, keep: { last: 100 } } },
    },
  });
  await untilPhase(id, "Running");
  while ((await sharedOf(call, id)).length < 3) await pause();
  return id;
}

async function checkpointsOf(call, id) {
  return (await call("GET", `/training-tasks/${id}/checkpoints`)).items ?? [];
}

/** Those that stay: the nodes' disks keep few. */
async function sharedOf(call, id) {
  return (await checkpointsOf(call, id)).filter((c) => c.tiers.some((x) => x.tier === "shared"));
}

/** A new task begins where this one was at a step: the form has its spec and says so. */
async function beginAnother({ page, t, accessible, picture, must, call }, id, name, kept) {
  await page
    .getByRole("link", { name: t["checkpoints.beginLabel"].replace("{{step}}", kept.step), exact: true })
    .click();
  const from = page.getByText(`${id} · ${t["create.fromStep"].replace("{{step}}", kept.step)}`);
  await from.waitFor();
  const yaml = page.getByRole("textbox", { name: "YAML" });
  const written = await yaml.inputValue();
  must(written.includes(`task: ${id}`) && written.includes(`step: ${kept.step}`), written);
  await accessible(page, "new task from a checkpoint");
  await picture(page, `from-${name}`);
  await page.getByRole("button", { name: t["create.fromRemove"], exact: true }).click();
  await from.waitFor({ state: "detached" });
  must(!(await yaml.inputValue()).includes("from:"), await yaml.inputValue());
  await yaml.fill(written);
  await from.waitFor();
  await page.getByRole("button", { name: t["create.submit"], exact: true }).click();
  await page.getByRole("heading", { name: t["create.title"] }).waitFor({ state: "detached" });
  const next = new URL(page.url()).pathname.split("/").at(-1);
  for (;;) {
    const { status } = await call("GET", `/training-tasks/${next}`);
    if (status.phase === "Running" && status.from) {
      const { taskId, name: origin, step } = status.from;
      must(taskId === id && origin === kept.name && step === kept.step, JSON.stringify(status.from));
      break;
    }
    must(!["Completed", "Failed", "Stopped"].includes(status.phase), `${next} is ${status.phase}`);
    await pause();
  }
  await call("POST", `/training-tasks/${next}/stop`);
}

/** The tab: the plot, a pin, and a way back that asks first. */
export async function seeCheckpoints(scene, name) {
  const { page, base, t, accessible, picture, must, call } = scene;
  const id = await savingTask(scene, name === "zh" ? "会保存的任务" : "a task that saves");
  await page.goto(`${base}/tasks/${id}`);
  await page.getByRole("tab", { name: t["checkpoints.tab"], exact: true }).click();
  await page.locator(".steps .line span").first().waitFor();
  const { step } = (await sharedOf(call, id)).at(-1);
  await page.getByRole("button", { name: t["checkpoints.pinLabel"].replace("{{step}}", step), exact: true }).click();
  await page.locator(".steps .line .pinned").first().waitFor();
  const kept = (await checkpointsOf(call, id)).find((c) => c.step === step);
  must(
    kept?.tiers.every((x) => x.pinned),
    `step ${step} is not pinned: ${JSON.stringify(kept)}`,
  );
  await page.getByRole("button", { name: t["checkpoints.verifyLabel"].replace("{{step}}", step), exact: true }).click();
  const copyOf = async () =>
    (await sharedOf(call, id)).find((c) => c.step === step).tiers.find((x) => x.tier === "shared");
  for (let copy = await copyOf(); !copy.verifiedAt; copy = await copyOf()) {
    must(!copy.damage, `step ${step}: ${JSON.stringify(copy)}`);
    await pause();
  }
  await accessible(page, "checkpoints");
  await picture(page, `checkpoints-${name}`);
  await beginAnother(scene, id, name, kept);
  await page.goto(`${base}/tasks/${id}`);
  await page.getByRole("tab", { name: t["checkpoints.tab"], exact: true }).click();
  await page
    .getByRole("button", { name: t["checkpoints.restoreLabel"].replace("{{step}}", step), exact: true })
    .click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(t["checkpoints.restoreRunning"]).waitFor();
  await accessible(page, "restore");
  await picture(page, `restore-${name}`);
  await dialog.getByRole("button", { name: t["checkpoints.restoreConfirm"], exact: true }).click();
  await dialog.waitFor({ state: "detached" });
  for (;;) {
    const { spec, status } = await call("GET", `/training-tasks/${id}`);
    must(spec.restore?.step === step, `nobody asked for step ${step}: ${JSON.stringify(spec.restore)}`);
    if (status.phase === "Running" && status.rendezvous?.origin?.name === kept.name) break;
    must(!["Completed", "Failed", "Stopped"].includes(status.phase), `${id} is ${status.phase}`);
    await pause();
  }
  await call("POST", `/training-tasks/${id}/stop`);
}
