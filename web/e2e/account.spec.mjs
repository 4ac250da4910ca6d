// Signing in and out: by the printed address, and by password. What is one's own: keys, secrets, tokens.
import { generateKeyPairSync } from "node:crypto";
import { accessible, call, must, open, picture, platform, signInByPassword, test, words } from "./scene.mjs";

const first = "correct horse 一";
const second = "battery staple 二";

/** A line of a .pub file. */
function publicKey(comment) {
  const { x } = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" });
  const part = (bytes) => Buffer.concat([Buffer.from([0, 0, 0, bytes.length]), bytes]);
  const blob = Buffer.concat([part(Buffer.from("ssh-ed25519")), part(Buffer.from(x, "base64url"))]);
  return `ssh-ed25519 ${blob.toString("base64")} ${comment}`;
}

/** The address that `fermi up` prints: it signs in, leaves nothing in the address, and works once. */
test("a one-time code signs in, once", async ({ browser }) => {
  const { base } = platform();
  const { code } = await call("POST", "/session/code");
  const { context, page, complaints } = await open(browser);
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
});

/** Passwords: a wrong one, too many wrong ones, the right one, changing it, and the end of every session. */
test.describe
  .serial("passwords", () => {
    let lang, t, user, here, there, page, alert;
    const inside = (page) => page.getByRole("button", { name: t["nav.signOut"], exact: true }).waitFor();

    test.beforeAll(async ({ browser, lang: chosen }) => {
      lang = chosen;
      t = words[lang];
      user = `lin-${lang}`;
      await call("POST", "/users", { metadata: { name: user }, spec: { role: "member" } });
      await call("PUT", `/users/${user}/password`, { password: first });
      const project = { metadata: { name: `desk-${lang}` }, spec: { queue: "default", members: [user] } };
      await call("POST", "/projects", project);
      here = await open(browser);
      there = await open(browser);
      for (const { page } of [here, there]) {
        await page.goto(platform().base);
        const other = page.getByRole("button", { name: words[lang === "zh" ? "en" : "zh"]["nav.language"] });
        await page.getByRole("button", { name: /中文|EN/ }).waitFor();
        if (await other.isVisible()) await other.click();
      }
      page = here.page;
      alert = page.getByRole("alert");
    });

    test.afterAll(async () => {
      await here?.context.close();
      await there?.context.close();
    });

    test("a wrong password is refused, and guessing is slowed down", async () => {
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
        await page
          .getByRole("button", { name: t["signIn.submit"] })
          .and(page.locator(":not([data-loading])"))
          .waitFor();
      }
      await slowed.waitFor();
      await picture(page, `sign-in-slowed-${lang}`);
      here.complaints.splice(0); // the refusals
    });

    test("a password signs in and is changed, which ends all sessions", async () => {
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

    test("signing out everywhere ends the other session", async () => {
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

    test("keys for SSH, secrets and tokens are one's own to make and end", async () => {
      await signInByPassword(page, t, user, second);
      await inside(page);
      here.complaints.splice(0);
      await page.getByRole("link", { name: user }).click();
      const panel = (word) => page.locator("section").filter({ has: page.getByRole("heading", { name: t[word] }) });
      const keys = panel("keys.title");
      await keys.getByLabel(t["keys.key"], { exact: true }).fill(publicKey(`lin@laptop-${lang}`));
      await keys.getByRole("button", { name: t["keys.add"] }).click();
      await keys.getByRole("cell", { name: `lin@laptop-${lang}` }).waitFor();

      const secrets = panel("secrets.title");
      await secrets.getByRole("button", { name: t["secrets.new"] }).click();
      const form = page.getByRole("dialog");
      await form.getByLabel(t["keys.name"], { exact: true }).fill("bucket");
      await form.getByLabel(t["secrets.type"], { exact: true }).first().click();
      await page.getByRole("option", { name: t["secrets.type.s3"] }).click();
      await form.getByRole("button", { name: t["secrets.save"] }).click();
      await form.getByText(t["secrets.needed"]).first().waitFor();
      await form.getByLabel(t["secrets.field.accessKeyID"]).fill("AKIA1");
      await form.locator('input[type="password"]').first().fill("never-shown");
      await form.getByLabel(t["secrets.field.endpoint"]).fill("not an address");
      await accessible(page, "the form of a secret");
      await form.getByRole("button", { name: t["secrets.save"] }).click();
      await form
        .getByText(lang === "zh" ? /ASCII/ : /printable/)
        .first()
        .waitFor();
      await picture(page, `secret-refused-${lang}`);
      here.complaints.splice(0); // the refusal
      await form.getByLabel(t["secrets.field.endpoint"]).fill("https://s3.example.org");
      await form.getByRole("button", { name: t["secrets.save"] }).click();
      await secrets.getByRole("cell", { name: "accessKeyID, endpoint, secretAccessKey" }).waitFor();

      const tokens = panel("tokens.title");
      await tokens.getByLabel(t["keys.name"], { exact: true }).fill("nightly");
      await tokens.getByRole("button", { name: t["tokens.make"] }).click();
      await tokens
        .getByRole("status")
        .getByText(/^fermi_nightly/)
        .waitFor();
      must(!(await page.content()).includes("never-shown"), "the value of a secret is on the page");
      await picture(page, `account-own-${lang}`);
      await tokens.getByRole("row", { name: "nightly" }).getByRole("button", { name: t["svc.keyRevoke"] }).click();
      await page.getByRole("dialog").getByRole("button", { name: t["svc.keyRevoke"] }).click();
      await tokens.getByText(t["tokens.empty"]).waitFor();
      must(here.complaints.length === 0, here.complaints.join("\n"));
    });
  });
