import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, configure, fireEvent, render, screen } from "@testing-library/react";
import { useState } from "react";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
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
  vi.stubGlobal("fetch", answer);
  await startLanguages();
});
afterEach(cleanup);

/** The server: two tasks run, and together they are nodes in the order asked for. */
async function answer(request: Request): Promise<Response> {
  const data = new URL(request.url).pathname.endsWith("/preview")
    ? preview((await request.json()).distributedConfig.nodeIds)
    : { items: ["env-a", "env-b"].map((name) => ({ metadata: { name }, spec: { roles: [{}] } })) };
  const body = JSON.stringify({ code: 200, message: "", data });
  return new Response(body, { headers: { "Content-Type": "application/json" } });
}

function preview(names: string[]) {
  const nodes = names.map((name) => ({ id: name, name, node: `node-of-${name}`, zone: "z" }));
  return { nodes, nodeCount: names.length, zones: ["z"], totalCpus: "2", totalMemory: "1Gi", warnings: [] };
}

function Page() {
  const [names, change] = useState(["env-a", "env-b"]);
  return <Inside project="lab" names={names} framework="plain" change={change} disabled={false} />;
}

test("where the master is chosen no more, the next one is it", async () => {
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MantineProvider env="test">
        <Page />
      </MantineProvider>
    </QueryClientProvider>,
  );
  const row = async (name: string) =>
    (await screen.findByText(new RegExp(`node-of-${name}`))).closest("tr")?.textContent;
  expect(await row("env-a")).toMatch(/CPU主节点$/);
  expect(await row("env-b")).toMatch(/设为主节点$/);
  fireEvent.click(screen.getByRole("option", { name: "env-a", hidden: true }));
  await screen.findByText(/^1 个节点/);
  expect(await row("env-b")).toMatch(/CPU主节点$/);
  expect(screen.queryByText(/node-of-env-a/)).toBeNull();
});
