import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
import type { Task } from "../api/client";
import { startLanguages } from "../i18n/setup";
import { Stop } from "./stop";

vi.setConfig({ testTimeout: 60_000 });
configure({ asyncUtilTimeout: 30_000 });

beforeAll(async () => {
  vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener() {}, removeEventListener() {} }));
  await startLanguages();
});
afterEach(cleanup);

/** What the console asks of the server; each call is answered by the next of these. */
function serve(...answers: { status: number; body: unknown }[]): string[] {
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    asked.push(`${request.method} ${request.url.slice(request.url.indexOf("/api/"))}`);
    const { status, body } = answers.shift() ?? { status: 500, body: {} };
    return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
  });
  return asked;
}

function task(inUseBy?: string): Task {
  return {
    kind: "TrainingTask",
    metadata: { name: "env-a" },
    spec: { roles: [] },
    status: { phase: "Running", inUseBy },
  } as unknown as Task;
}

const client = new QueryClient();

function page(task: Task) {
  return (
    <QueryClientProvider client={client}>
      <MantineProvider env="test">
        <Stop name="env-a" task={task} />
      </MantineProvider>
    </QueryClientProvider>
  );
}

const press = (name: string) => fireEvent.click(screen.getByRole("button", { name }));

test("who trains inside is named, and ends too", async () => {
  const asked = serve({ status: 200, body: { code: 200, message: "", data: task("guest") } });
  render(page(task("guest")));
  press("停止");
  expect(screen.getByText("任务 guest 正在其中训练，将随之结束。")).toBeTruthy();
  press("一并停止");
  await waitFor(() => expect(asked).toEqual(["POST /api/v1/training-tasks/env-a/stop?force=true"]));
});

test("a task alone is not insisted upon; who came meanwhile is asked about", async () => {
  const asked = serve({ status: 409, body: { code: 409, reason: "InUse", message: "guest", hint: "--yes" } });
  const { rerender } = render(page(task()));
  press("停止");
  press("停止任务");
  await screen.findByText("--yes");
  expect(asked).toEqual(["POST /api/v1/training-tasks/env-a/stop"]);
  rerender(page(task("guest")));
  expect(screen.queryByText("--yes")).toBeNull();
  expect(screen.getByRole("button", { name: "一并停止" })).toBeTruthy();
});
