import { beforeEach, expect, test } from "vitest";
import { classesOf, keepProject, mayUse, usualProject } from "./project";

beforeEach(() => localStorage.removeItem("fermi.project"));

test("work goes to the project one used last, as long as one is in it", () => {
  expect(usualProject([])).toBe("");
  expect(usualProject(["vision", "speech"])).toBe("vision");
  expect(usualProject(["audio", "default"])).toBe("default");
  keepProject("speech");
  expect(usualProject(["vision", "speech"])).toBe("speech");
  expect(usualProject(["vision"])).toBe("vision");
  keepProject("");
  expect(usualProject(["vision", "speech"])).toBe("speech");
});

test("a project may use its own queue, and those that name it or everybody", () => {
  const queue = (name: string, projects?: string[]) => ({ metadata: { name }, spec: { projects } });
  expect(mayUse(queue("home"), "a", "home")).toBe(true);
  expect(mayUse(queue("other"), "a", "home")).toBe(false);
  expect(mayUse({ metadata: { name: "other" } }, "a", "home")).toBe(false);
  expect(mayUse(queue("other", ["b", "a"]), "a", "home")).toBe(true);
  expect(mayUse(queue("other", ["b"]), "a", "home")).toBe(false);
  expect(mayUse(queue("other", ["*"]), "a", "home")).toBe(true);
});

test("a project has the classes up to what it was granted", () => {
  expect(classesOf(undefined)).toEqual(["training", "environment", "preemptible"]);
  expect(classesOf(600)).toEqual(["training", "environment", "preemptible"]);
  expect(classesOf(1000)).toEqual(["inference", "training", "environment", "preemptible"]);
});
