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
