// Starts the shipped binary for the suite, and ends it with all that still runs.
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { call, pictures, root, untilPhase } from "./scene.mjs";

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

/** Tells the workers where the platform is, by FERMI_E2E. */
export default async function startPlatform() {
  await mkdir(pictures, { recursive: true });
  const data = await mkdtemp(join(tmpdir(), "fermi-web-"));
  const listen = `127.0.0.1:${await freePort()}`;
  const base = `http://${listen}`;
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
  const token = (await readFile(join(data, "admin.token"), "utf8")).trim();
  process.env.FERMI_E2E = JSON.stringify({ base, token, work: join(data, "work.json") });
  return async () => {
    // Launchers outlive the server: what still runs is stopped first.
    const { items } = await call("GET", "/training-tasks?limit=500&phase=Running,Initializing,Pending");
    for (const task of items) await call("POST", `/training-tasks/${task.metadata.id}/stop`);
    for (const task of items) await untilPhase(task.metadata.id, "Stopped");
    for (const plural of ["dev-environments", "inference-services"]) {
      const { items: left } = await call("GET", `/${plural}?limit=500`);
      for (const work of left) await call("DELETE", `/${plural}/${work.metadata.id}`);
      while ((await call("GET", `/${plural}?limit=1`)).items.length > 0)
        await new Promise((done) => setTimeout(done, 50));
    }
    child.kill("SIGTERM");
    await ended;
    await rm(data, { recursive: true, force: true });
  };
}
