import { expect, test } from "vitest";
import { missing, typed } from "./secret";

test("only what was typed is sent, and a private key ends its last line", () => {
  expect(typed({ username: "", "ssh-privatekey": "-----END-----", password: " a " })).toEqual({
    "ssh-privatekey": "-----END-----\n",
    password: " a ",
  });
});

test("what a type needs is asked for, unless it was there before", () => {
  expect(missing("s3", { accessKeyID: "a" }, [])).toEqual(["secretAccessKey"]);
  expect(missing("s3", {}, ["accessKeyID", "secretAccessKey"])).toEqual([]);
  expect(missing("registry", {}, [])).toEqual(["server", "username", "password"]);
  expect(missing("git", {}, [])).toEqual([]);
  expect(missing("opaque", {}, [])).toEqual([]);
});
