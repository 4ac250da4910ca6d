import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, configure, fireEvent, render, screen, within } from "@testing-library/react";
import { useState } from "react";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
import { keys } from "../api/queries";
import { startLanguages } from "../i18n/setup";
import { Inside } from "./inside";

vi.setConfig({ testTimeout: 60_000 });
configure({ asyncUtilTimeout: 30_000 });

beforeAll(async () => {
  vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener() {}, removeEventListener() {} }));
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe() {}
      unobserve() {}
      disconnect() {}
    },
  );
  const Absolute = class extends Request {
    constructor(input: RequestInfo | URL, init?: RequestInit) {
      super(typeof input === "string" ? new URL(input, window.location.href) : input, init);
    }
  };
  vi.stubGlobal("Request", Absolute);
  vi.stubGlobal("fetch", answer);
  await startLanguages();
});
afterEach(cleanup);

const env = (name: string, owner: string, phase: string, zone: string) => ({
  metadata: { name, id: `env-${name}`, owner },
  spec: { type: "notebook", resources: { accelerators: { count: 2, type: "A100" } } },
  status: { phase, zones: [zone], startedAt: "2026-01-01T00:00:00Z" },
});

/** The server: four environments, of which two can be chosen, and they are nodes in the order asked for. */
async function answer(request: Request): Promise<Response> {
  const path = new URL(request.url).pathname;
  const data = path.endsWith("/preview")
    ? preview((await request.json()).distributedConfig.nodeIds)
    : path.endsWith("/dev-environments")
      ? {
          items: [
            env("a", "ann", "Running", "bj"),
            env("b", "ann", "Running", "sz"),
            env("off", "ann", "Stopped", "bj"),
            env("others", "bob", "Running", "bj"),
          ],
        }
      : { items: [] };
  const body = JSON.stringify({ code: 200, message: "", data });
  return new Response(body, { headers: { "Content-Type": "application/json" } });
}

function preview(names: string[]) {
  const nodes = names.map((name) => ({ id: name, name, node: "n", zone: "z", devices: { A100: 2 } }));
  return {
    nodes,
    nodeCount: names.length,
    isDistributed: names.length > 1,
    zones: names.length > 1 ? ["bj", "sz"] : ["bj"],
    gpuTypes: ["A100"],
    totalGpus: 2 * names.length,
    totalCpus: `${16 * names.length}`,
    totalMemory: `${128 * names.length}Gi`,
    framework: names.length > 1 ? "pytorch-ddp" : "plain",
    startSeconds: 1.4,
    warnings: [],
  };
}

function Page() {
  const [names, setNames] = useState<string[]>([]);
  const [framework, setFramework] = useState("");
  return (
    <Inside
      project="lab"
      names={names}
      framework={framework}
      change={(next, other) => {
        setNames(next);
        if (other !== undefined) setFramework(other);
      }}
      disabled={false}
    />
  );
}

test("environments are chosen by their cards, the first is the master, the panel comes with the second", async () => {
  const client = new QueryClient();
  client.setQueryData(keys.whoami, { user: "ann" });
  render(
    <QueryClientProvider client={client}>
      <MantineProvider env="test">
        <Page />
      </MantineProvider>
    </QueryClientProvider>,
  );
  const card = (name: string) => screen.findByTestId(`host-${name}`);
  expect((await card("off")).textContent).toContain("未运行，无法选择");
  expect((await card("others")).textContent).toContain("属于 bob 且未共享");
  expect(((await card("off")) as HTMLButtonElement).disabled).toBe(true);

  fireEvent.click(await card("a"));
  await screen.findByText("已选 1");
  const one = await screen.findByTestId("together");
  expect(one.textContent).toContain("单机训练");
  expect(one.textContent).toContain("快速启动，预计 2 秒内开始训练");
  expect(screen.queryByTestId("distributed")).toBeNull();
  expect((await card("a")).textContent).not.toContain("主节点");

  fireEvent.click(await card("b"));
  await screen.findByText("已选 2");
  expect((await card("a")).textContent).toContain("主节点");
  expect((await card("b")).textContent).not.toContain("主节点");
  const panel = await screen.findByTestId("distributed");
  expect(panel.textContent).toContain("数据并行");
  expect(panel.textContent).toContain("分布式训练将在多个节点上并行执行，确保所有节点网络互通");
  await screen.findByText("跨可用区训练可能会有网络延迟", { exact: false });
  const both = await screen.findByTestId("together");
  for (const words of [
    "训练节点2 个",
    "总GPU4 个 (A100)",
    "总CPU32 核",
    "总内存256 GB",
    "跨可用区2 个",
    "使用 PyTorch DDP",
  ])
    expect(both.textContent).toContain(words);

  fireEvent.click(await card("a")); // the master goes: the next one is it
  await screen.findByText("已选 1");
  fireEvent.click(await card("a"));
  await screen.findByText("已选 2");
  expect(within(await card("b")).getByText("主节点")).toBeDefined();
});
