import { MantineProvider } from "@mantine/core";
import { cleanup, render, screen } from "@testing-library/react";
import type { ReactNode } from "react";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
import { Refused } from "../api/client";
import { startLanguages } from "../i18n/setup";
import { plain } from "../log";
import { Intervals } from "./checkpoints";
import { LogView } from "./log-view";
import { PhaseBadge } from "./phase";
import { View } from "./states";

beforeAll(async () => {
  vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener() {}, removeEventListener() {} }));
  await startLanguages();
});
afterEach(cleanup);

const show = (node: ReactNode) => render(<MantineProvider>{node}</MantineProvider>);

test("a view has four faces", () => {
  const read = { data: undefined as string[] | undefined, error: null as Error | null, refetch: () => {} };
  const view = (r: typeof read) => (
    <View read={r} empty={(d) => d.length === 0} whenEmpty={<p>nothing</p>}>
      {(d) => <p>{d.join()}</p>}
    </View>
  );
  show(view(read));
  expect(screen.getByRole("status")).toBeTruthy();
  cleanup();
  const fields = [{ path: "spec.roles[0]", message: "太多" }];
  show(view({ ...read, error: new Refused(400, "InvalidField", "字段有误", "改一改", fields) }));
  expect(screen.getByRole("alert").textContent).toMatch(/字段有误.*spec\.roles\[0\].*太多.*改一改/s);
  cleanup();
  show(view({ ...read, data: [] }));
  expect(screen.getByText("nothing")).toBeTruthy();
  cleanup();
  show(view({ ...read, data: ["a", "b"] }));
  expect(screen.getByText("a,b")).toBeTruthy();
});

test("how often a task saves is told with its reason", () => {
  const why = { en: "Every 40 steps (8 s): a save stalls training for 12 ms.", zh: "每 40 步（8 秒）保存一次。" };
  show(<Intervals list={[{ tier: "memory", steps: 40, every: "8s", why }]} lang="zh" />);
  expect(screen.getByText("内存保存")).toBeTruthy();
  expect(screen.getByText(why.zh)).toBeTruthy();
});

test("a hostile log line is text", () => {
  const text = '\u001b[31m<img src=x onerror="alert(1)">\u001b[0m';
  expect(plain(text)).toBe('<img src=x onerror="alert(1)">');
  const line = { key: 1, time: "", replica: "worker-0", stream: "stderr", text };
  const { container } = show(<LogView lines={[line]} dropped={false} state="ended" prefix />);
  expect(container.querySelector("pre img")).toBeNull();
  expect(screen.getByRole("log").textContent).toContain("<img src=x");
  expect(screen.getByRole("log").textContent).toContain("日志结束");
});

test("an unknown phase is shown as waiting", () => {
  show(<PhaseBadge phase={undefined} />);
  expect(screen.getByText("排队中")).toBeTruthy();
});
