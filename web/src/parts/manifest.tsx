import type { ReactNode } from "react";
import { stringify } from "yaml";
import type { Task } from "../api/client";

/** The task as a manifest that can be submitted again; a module of its own, with the YAML library. */
export default function Manifest({ task, children }: { task: Task; children: (text: string) => ReactNode }) {
  return children(stringify({ kind: "TrainingTask", ...task }, { lineWidth: 0 }));
}
