import type { ReactNode } from "react";
import { stringify } from "yaml";

/** An object as a manifest that can be applied again; a module of its own, with the YAML library. */
export default function Manifest(props: { kind?: string; task: object; children: (text: string) => ReactNode }) {
  return props.children(stringify({ kind: props.kind ?? "TrainingTask", ...props.task }, { lineWidth: 0 }));
}
