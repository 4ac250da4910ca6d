// The member's way: somebody who is in one project and no admin signs in, creates a task with code, watches it,
// sees why it failed, changes it and runs it again.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { accessible, call, must, open, picture, platform, test, words } from "./scene.mjs";
import { seeEnvironment, seeService } from "./works.mjs";

const password = "correct horse 三";
const decided = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x10 and 20x5)";

// Draws a progress bar over itself on stderr, then fails as a script does whose shapes don't fit.
const script = `#!/bin/sh
for i in 1 2 3; do printf '\\r%s0%%|##  | %s/3' "$i" "$i" >&2; sleep 0.1; done; echo >&2
printf '\\033[32mready\\033[0m token of %s characters\\n' "\${#HUB_TOKEN}"
if [ "$FERMI_HP_DIM" != 20 ]; then
  echo 'Traceback (most recent call last):' >&2
  echo '  File "train.py", line 12, in <module>' >&2
  echo '${decided}' >&2
  exit 1
fi
for i in $(seq 1 5); do echo "step=$i loss=0.$((90 - i))"; sleep 0.1; done
echo trained with $FERMI_HP_DIM
`;

/** A folder with code, and with what must stay at home. */
async function makeCode() {
  const root = await mkdtemp(join(tmpdir(), "fermi-code-"));
  const code = join(root, "code");
  for (const [path, text] of [
    ["train.sh", script],
    ["train.py", "print(1)\n"],
    ["lib/model.py", "dim = 20\n"],
    ["requirements.txt", "torch\n"],
    [".git/config", "[core]\n"],
    ["env/pyvenv.cfg", "home = /usr\n"],
    ["env/lib/site.py", "x\n"],
  ]) {
    await mkdir(join(code, path, ".."), { recursive: true });
    await writeFile(join(code, path), text);
  }
  return { code, remove: () => rm(root, { recursive: true, force: true }) };
}

/** A project with one member, who has a password, and a secret. */
async function makeMember(lang) {
  const [user, project] = [`mei-${lang}`, `vision-${lang}`];
  await call("POST", "/users", { metadata: { name: user }, spec: { role: "member" } });
  await call("PUT", `/users/${user}/password`, { password });
  const displayName = lang === "zh" ? "视觉组" : "Vision";
  await call("POST", "/projects", { metadata: { name: project, displayName }, spec: { members: [user] } });
  await call("POST", "/secrets", { metadata: { name: "hub", project }, spec: { data: { token: "12345" } } });
  return { user, project, displayName };
}

test.describe
  .serial("member", () => {
    let lang, t, other, base, code, remove, member, name, context, page, complaints;
    const clean = () => must(complaints.length === 0, complaints.splice(0).join("\n"));
    const field = (word) => page.getByLabel(t[word], { exact: true });
    const button = (word) => page.getByRole("button", { name: t[word], exact: true });
    const phase = (word) => page.getByText(t[`phase.${word}`], { exact: true }).first().waitFor();

    test.beforeAll(async ({ browser, lang: chosen }) => {
      lang = chosen;
      t = words[lang];
      other = words[lang === "zh" ? "en" : "zh"];
      base = platform().base;
      name = lang === "zh" ? "图像分类（成员）" : "image classes, by a member";
      ({ code, remove } = await makeCode());
      member = await makeMember(lang);
      ({ context, page, complaints } = await open(browser, lang));
    });

    test.afterAll(async () => {
      await context?.close();
      await remove?.();
    });

    test("the browser's language is the first, a choice is kept, a password signs in", async () => {
      await page.goto(base);
      await page.getByRole("heading", { name: t["signIn.title"] }).waitFor();
      await page.getByRole("button", { name: t["nav.language"] }).click();
      await page.getByRole("heading", { name: other["signIn.title"] }).waitFor();
      await page.reload();
      await page.getByRole("heading", { name: other["signIn.title"] }).waitFor();
      await page.getByRole("button", { name: other["nav.language"] }).click();
      await page.getByLabel(t["signIn.user"], { exact: true }).fill(member.user);
      await page.locator('input[autocomplete="current-password"]').fill(password);
      await page.getByRole("button", { name: t["signIn.submit"] }).click();
      await page.getByRole("heading", { name: t["overview.title"] }).waitFor();
      clean();
    });

    test("sees the same map of devices as everybody, and nobody else's tasks", async () => {
      // What an admin is told, counted by hand.
      const { items } = await call("GET", "/devices");
      const used = items.filter((n) => n.node.startsWith("shanghai-1-")).reduce((n, u) => n + u.used.length, 0);
      must(used > 0, "nothing is used in 上海-1: there is nothing to compare");
      const label = t["overview.mapLabel"]
        .replace("{{zone}}", "上海-1")
        .replace("{{total}}", "256")
        .replace("{{used}}", used);
      await page.getByRole("img", { name: label, exact: true }).waitFor();
      const count = (text) => Number(/\d+/.exec(text)?.[0]);
      const many = page.getByText(new RegExp(t["overview.others_other"].replace("{{count}}", "\\d+"))).first();
      await many.waitFor();
      must(count(await many.textContent()) > 1, "no number of others' tasks");
      must((await page.getByText("GPT大模型分布式训练").count()) === 0, "a task of another project is named");
      await accessible(page, "overview of a member");
      await picture(page, `member-overview-${lang}`);
      clean();
    });

    test("what is missing is said all at once, at its field", async () => {
      await page.getByRole("navigation").getByRole("link", { name: t["nav.create"] }).click();
      const project = page.getByRole("combobox", { name: t["create.project"], exact: true });
      await project.waitFor();
      await page.locator(`input[value="${member.displayName}"]`).waitFor();
      must((await project.inputValue()) === member.displayName, `the project is ${await project.inputValue()}`);
      await page.getByText(t["create.nominal"]).waitFor();
      await field("create.memory").fill("lots");
      await page.getByText(t["create.codeUpload"], { exact: true }).click();
      await button("create.submit").click();
      await page.getByText(t["create.commandEmpty"]).waitFor();
      await page.getByText(t["create.noCode"]).waitFor();
      for (const word of ["create.displayName", "create.command", "create.memory"]) {
        must((await field(word).getAttribute("aria-invalid")) === "true", `${word} is not marked`);
      }
      must(await field("create.displayName").evaluate((e) => e === document.activeElement), "the first is not focused");
      await accessible(page, "refused fields");
      await picture(page, `member-refused-${lang}`);
      must(
        complaints.splice(0).every((c) => /400/.test(c)),
        "another complaint than the refusal",
      );
      await field("create.memory").fill("");
      must((await field("create.memory").getAttribute("aria-invalid")) !== "true", "a changed field stays marked");
    });

    test("creates a task with code, parameters and a secret", async () => {
      await field("create.displayName").fill(name);
      await page.locator("input[webkitdirectory]").setInputFiles(code);
      await page.getByText(t["create.leftOut"].replace("{{list}}", ".git/, env/")).waitFor();
      await page.getByText(t["create.sent_other"].replace("{{count}}", "4").split("{{")[0]).first().waitFor();
      must((await field("create.command").inputValue()) === "python train.py", "no command is offered");
      await button("create.requirementsAdd").click();
      await page.getByText(t["create.requirementsOn"].replace("{{name}}", "requirements.txt")).waitFor();
      await button("create.requirementsOff").click();
      await field("create.command").fill("sh train.sh");
      await button("create.paramAdd").click();
      await page.getByLabel(t["create.paramName"].replace("{{n}}", "1"), { exact: true }).fill("dim");
      await page.getByLabel(t["create.paramValue"].replace("{{n}}", "1"), { exact: true }).fill("10");
      await button("create.secretAdd").click();
      await page.getByRole("combobox", { name: t["create.secretOf"].replace("{{n}}", "1"), exact: true }).click();
      await page.getByRole("option", { name: "hub", exact: true }).click(); // its only key is chosen with it
      await page.getByLabel(t["create.secretName"].replace("{{n}}", "1"), { exact: true }).fill("HUB_TOKEN");
      const yaml = await page.getByRole("textbox", { name: "YAML" }).inputValue();
      for (const part of [`project: ${member.project}`, "archive: sha256:", "dim: 10", "secret: hub", "key: token"]) {
        must(yaml.includes(part), `the YAML has no ${part}:\n${yaml}`);
      }
      await accessible(page, "create, as a member");
      await picture(page, `member-create-${lang}`);
      await button("create.submit").click();
      await page.getByRole("heading", { name }).waitFor();
      clean();
    });

    test("watches it fail, and the line that decided leads", async () => {
      await phase("Failed");
      const line = page.getByLabel(t["task.decided"], { exact: true });
      await line.waitFor();
      must((await line.textContent()) === decided, `the line is ${await line.textContent()}`);
      const log = page.getByRole("log");
      await log.getByText("30%|##  | 3/3").waitFor();
      must((await log.getByText("10%|").count()) === 0, "a state of the progress bar that is past is shown");
      await log.getByText("ready", { exact: true }).waitFor();
      must((await log.textContent()).includes("ready token of 5 characters"), "the secret did not arrive");
      const colour = (text) =>
        log
          .getByText(text)
          .first()
          .evaluate((e) => getComputedStyle(e).color);
      must(
        (await colour("Traceback")) === (await log.evaluate((e) => getComputedStyle(e).color)),
        "stderr is coloured",
      );
      must((await colour("ready")) !== (await colour("Traceback")), "a colour is not shown");
      await accessible(page, "failed task");
      await picture(page, `member-failed-${lang}`);
      clean();
    });

    test("an address written by hand finds it", async () => {
      const failed = page.url();
      await page.goto(`${base}/tasks?phase=Failed`);
      await page.getByRole("link", { name }).waitFor();
      await page.goto(`${base}/tasks?phase=failed,running&search=42&sort=nonsense`);
      await page.getByText(t["tasks.noMatch"]).waitFor();
      await page.goto(failed);
      clean();
    });

    test("edits it and runs it again, with the same code", async () => {
      await page.getByRole("link", { name: t["task.editAgain"], exact: true }).click();
      await page.getByText(t["create.archiveKept"].split("{{")[0]).waitFor();
      must((await field("create.displayName").inputValue()) === name, "the name is not there");
      must((await field("create.command").inputValue()) === "sh train.sh", "the command is not there");
      const value = page.getByLabel(t["create.paramValue"].replace("{{n}}", "1"), { exact: true });
      must((await value.inputValue()) === "10", "the parameter is not there");
      await value.fill("20");
      await picture(page, `member-again-${lang}`);
      await button("create.submit").click();
      await phase("Completed");
      await page.getByRole("log").getByText("trained with 20").waitFor();
      clean();
    });

    test("runs it again as it was with one click", async () => {
      const before = page.url();
      await button("task.again").click();
      await page.waitForURL((url) => url.href !== before);
      await phase("Completed");
      await page.getByRole("log").getByText("trained with 20").waitFor();
      await picture(page, `member-done-${lang}`);
      clean();
    });

    test("works in an environment's terminal, and comes back to it", async () => {
      const scene = { page, base, t, accessible, picture, must, clean, complaints };
      await seeEnvironment(scene, lang === "zh" ? "视觉实验环境" : "vision lab", lang);
    });

    test("deploys a service and asks it", async () => {
      const scene = { page, base, t, accessible, picture, must, clean, complaints };
      await seeService(scene, lang === "zh" ? "螺旋分类服务" : "spirals for vision", lang);
    });
  });
