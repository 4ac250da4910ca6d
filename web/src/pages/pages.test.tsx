import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, RouterProvider } from "@tanstack/react-router";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { startLanguages } from "../i18n/setup";
import { Broken, makeRouter } from "../router";
import { keep } from "../session";

type Answer = { status?: number; body: object };
let answers: Record<string, (request: Request) => Answer>;
const ok = (data: unknown): Answer => ({ body: { code: 200, message: "", data } });
const items = (...list: unknown[]) => ok({ items: list, revision: 1 });

beforeAll(async () => {
  vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener() {}, removeEventListener() {} }));
  vi.stubGlobal("scrollTo", () => {});
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe() {}
      unobserve() {}
      disconnect() {}
    },
  );
  // A browser reads an address against that of its page.
  const Absolute = class extends Request {
    constructor(input: RequestInfo | URL, init?: RequestInit) {
      super(typeof input === "string" ? new URL(input, window.location.href) : input, init);
    }
  };
  vi.stubGlobal("Request", Absolute);
  Object.defineProperty(document, "fonts", { value: { addEventListener() {}, removeEventListener() {} } });
  Element.prototype.scrollIntoView = () => {};
  vi.stubGlobal("fetch", async (request: Request) => {
    const { pathname } = new URL(request.url);
    if (pathname.includes("/watch/")) return new Promise(() => {}); // a stream on which nothing comes
    const { status = 200, body } = (answers[`${request.method} ${pathname}`] ?? (() => items()))(request);
    return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
  });
  keep("a token");
  await startLanguages();
});

beforeEach(() => {
  localStorage.removeItem("fermi.project");
  answers = {
    "GET /api/v1/whoami": () => ok({ user: "mei", role: "member", token: "", projects: ["vision"] }),
    "GET /api/v1/projects": () =>
      items({ metadata: { id: "p1", name: "vision", displayName: "视觉组" }, spec: { queue: "day" } }),
    "GET /api/v1/queues": () =>
      items(
        { metadata: { id: "q1", name: "day" }, spec: {} },
        { metadata: { id: "q2", name: "night" }, spec: { projects: ["vision"] } },
        { metadata: { id: "q3", name: "others" }, spec: { projects: ["speech"] } },
      ),
    "GET /api/v1/zones": () => items({ metadata: { id: "z1", name: "z" }, spec: { region: "r", virtual: true } }),
  };
});
afterEach(cleanup);

async function showAt(address: string) {
  const router = makeRouter(createMemoryHistory({ initialEntries: [address] }));
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  return render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test.each([
  "?phase=Failed",
  "?phase=failed,nonsense",
  '?phase=["Failed"]',
  "?phase=7&search=[1]&sort={}",
  "?phase=%5B",
])("the list of tasks stands at /tasks%s", async (query) => {
  const asked: string[] = [];
  answers["GET /api/v1/training-tasks"] = (request) => {
    asked.push(...new URL(request.url).searchParams.getAll("phase"));
    return items();
  };
  await showAt(`/tasks${query}`);
  await screen.findByRole("heading", { name: "训练任务" });
  await waitFor(() => expect(screen.queryByText(/没有符合条件的任务|还没有任务/)).toBeTruthy());
  expect(screen.queryByText("页面出错了")).toBeNull();
  expect(asked.join()).toBe(/ailed/.test(query) ? "Failed" : "");
});

test("a member's project is chosen, and the queues are those it may use", async () => {
  await showAt("/create");
  const project = await screen.findByRole("combobox", { name: "项目" });
  await waitFor(() => expect((project as HTMLInputElement).value).toBe("视觉组"));
  expect((screen.getByRole("textbox", { name: "YAML" }) as HTMLTextAreaElement).value).toContain("project: vision");
  fireEvent.click(screen.getByRole("combobox", { name: "队列" }));
  await screen.findByRole("option", { name: "night", hidden: true });
  expect(screen.queryByRole("option", { name: "day", hidden: true })).toBeTruthy();
  expect(screen.queryByRole("option", { name: "others", hidden: true })).toBeNull();
  expect(screen.getByText(/演示节点是虚拟的/)).toBeTruthy();
});

test("everything that is wrong is marked at once, and the first has the focus", async () => {
  const fields = [
    { path: "metadata.name", message: "没有名称" },
    { path: "spec.roles[0].resources.memory", message: "内存有误" },
    { path: "spec.nonsense", message: "没有这个字段" },
  ];
  const sent: string[] = [];
  answers["POST /api/v1/training-tasks"] = (request) => {
    sent.push(request.url);
    return { status: 400, body: { code: 400, reason: "InvalidField", message: "3 个字段有误", fields } };
  };
  await showAt("/create");
  await screen.findByRole("combobox", { name: "项目" });
  fireEvent.click(screen.getByRole("button", { name: "提交" }));
  await screen.findByText("请填写名称。");
  expect(screen.getByText("内存有误")).toBeTruthy();
  expect(screen.getByText("请填写要运行的命令。")).toBeTruthy();
  expect(screen.getByText("请修改标出的 3 处。")).toBeTruthy();
  expect(screen.getByText("spec.nonsense")).toBeTruthy();
  expect(sent.every((url) => url.includes("dryRun=true"))).toBe(true); // a task that does nothing is not submitted
  const name = screen.getByRole("textbox", { name: "名称" });
  await waitFor(() => expect(document.activeElement).toBe(name));
  fireEvent.change(name, { target: { value: "x" } });
  await waitFor(() => expect(screen.queryByText("请填写名称。")).toBeNull());
  expect(screen.getByText("内存有误")).toBeTruthy();
});

test("what counts between zones is written, and refused at its field", async () => {
  const fields = [{ path: "spec.zones.prefer.carbon", message: "权重过大" }];
  answers["POST /api/v1/training-tasks"] = () => ({
    status: 400,
    body: { code: 400, reason: "InvalidField", message: "1 个字段有误", fields },
  });
  await showAt("/create");
  const yaml = (await screen.findByRole("textbox", { name: "YAML" })) as HTMLTextAreaElement;
  fireEvent.change(await screen.findByRole("textbox", { name: "价格" }), { target: { value: "3" } });
  fireEvent.change(screen.getByRole("textbox", { name: "碳排放" }), { target: { value: "1" } });
  fireEvent.click(screen.getByRole("switch", { name: /^不为其他任务迁移/ }));
  await waitFor(() => expect(yaml.value).toMatch(/prefer:\s+price: 3\s+carbon: 1\s+stay: true/));
  fireEvent.click(screen.getByRole("button", { name: "检查" }));
  await screen.findByText("权重过大");
  expect(screen.getByRole("textbox", { name: "碳排放" }).getAttribute("aria-invalid")).toBe("true");
});

test("who is in no project is told so", async () => {
  answers["GET /api/v1/whoami"] = () => ok({ user: "mei", role: "member", token: "", projects: [] });
  answers["GET /api/v1/projects"] = () => items();
  await showAt("/create");
  await screen.findByText("您还不是任何项目的成员");
});

test("a failed task leads with the line that decided, and is run again", async () => {
  const task = {
    metadata: { id: "task-1", name: "a", displayName: "图像分类", project: "vision" },
    spec: { code: { archive: "sha256:0123456789abcdef" }, roles: [{ command: ["sh", "-c", "sh train.sh"] }] },
    status: {
      phase: "Failed",
      failure: { replica: "worker-0", node: "n1", exitCode: 1, line: "\u001b[31mRuntimeError: mat1\u001b[0m" },
    },
  };
  answers["GET /api/v1/training-tasks/task-1"] = () => ok(task);
  answers["GET /api/v1/training-tasks/task-1/why"] = () =>
    ok({
      reason: "ExitedNonZero",
      message: { zh: "RuntimeError: mat1 —— 进程失败" },
      evidence: [{ zh: "RuntimeError: mat1" }, { zh: "另一点" }],
    });
  await showAt("/tasks/task-1");
  const line = await screen.findByLabelText("关键日志");
  expect(line.textContent).toBe("RuntimeError: mat1");
  expect(screen.getAllByText(/RuntimeError: mat1/)).toHaveLength(1);
  expect(line.compareDocumentPosition(screen.getByText("进程失败")) & Node.DOCUMENT_POSITION_FOLLOWING).toBeTruthy();
  fireEvent.click(screen.getByRole("link", { name: "修改后再运行" }));
  await screen.findByText(/内容与任务“图像分类”相同/);
  expect((screen.getByRole("textbox", { name: "命令" }) as HTMLTextAreaElement).value).toBe("sh train.sh");
  expect(screen.getByText(/使用已上传的代码包 sha256:0123456789ab/)).toBeTruthy();
});

test("a page that breaks says so and leaves a way out", () => {
  render(
    <MantineProvider env="test">
      <Broken error={new Error("oh")} reset={() => {}} />
    </MantineProvider>,
  );
  expect(screen.getByRole("alert").textContent).toMatch(/页面出错了.*oh/s);
  expect(screen.getByRole("link", { name: "回到总览" }).getAttribute("href")).toBe("/");
});

test("a training is spread over zones in steps, and costs what they cost", async () => {
  const zone = (id: string, more: object) => ({
    metadata: { id, name: id, displayName: `${id} 区` },
    spec: { region: "北京", price: {}, ...more },
    status: { ready: 3, health: "healthy" },
  });
  const sent: unknown[] = [];
  answers["GET /api/v1/zones"] = () => items(zone("a", {}), zone("b", { price: { deviceHour: 1, coreHour: 0 } }));
  answers["GET /api/v1/zone-matrix"] = () =>
    items({ from: "a", to: "b", declaredMs: 9, measured: { p50Ms: 1.5, at: "2026-11-19T00:00:00Z" } });
  answers["POST /api/v1/training-tasks"] = (request) => {
    sent.push(request.text());
    return ok({ taskId: "task-1", name: "gpt", status: "pending" });
  };
  await showAt("/tasks");
  fireEvent.click(await screen.findByRole("button", { name: "跨可用区训练" }));
  fireEvent.change(await screen.findByRole("textbox", { name: "名称" }), { target: { value: "GPT" } });
  expect((screen.getByRole("button", { name: "下一步" }) as HTMLButtonElement).disabled).toBe(true);
  fireEvent.change(screen.getByRole("textbox", { name: "启动命令" }), { target: { value: "python train.py" } });
  fireEvent.click(screen.getByRole("button", { name: "下一步" }));
  fireEvent.click(await screen.findByRole("checkbox", { name: "a 区" }));
  fireEvent.click(screen.getByRole("checkbox", { name: "b 区" }));
  await waitFor(() => expect(screen.getAllByText(/1.5 ms · 适合分布式训练/)).toHaveLength(2));
  fireEvent.click(screen.getByRole("button", { name: "下一步" }));
  fireEvent.click(screen.getByRole("button", { name: "b 区 增加一个节点" }));
  expect(screen.getByText(/共 3 节点 · 24 卡 · 192 核 · 768 GiB · ¥96.80\/小时/)).toBeTruthy();
  fireEvent.change(screen.getByRole("textbox", { name: "b 区 至少节点数" }), { target: { value: "1" } });
  fireEvent.change(screen.getByRole("textbox", { name: "a 区 至多节点数" }), { target: { value: "2" } });
  fireEvent.click(screen.getByRole("checkbox", { name: /各可用区均衡/ }));
  fireEvent.click(screen.getByRole("button", { name: "下一步" }));
  fireEvent.click(screen.getByRole("button", { name: "启动分布式训练" }));
  await waitFor(() => expect(sent).toHaveLength(1));
  const task = JSON.parse((await sent[0]) as string);
  expect(task.metadata).toEqual({ displayName: "GPT", project: "vision" });
  expect(task.spec.zones).toEqual({ split: { a: "1..2", b: "1..2" }, balance: true });
  expect(task.spec.roles).toHaveLength(1);
  expect(task.spec.roles[0]).toMatchObject({ replicas: 3, command: ["sh", "-c", "python train.py"] });
});
