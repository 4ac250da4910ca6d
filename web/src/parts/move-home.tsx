// Where a home shall go.
import { Autocomplete, Checkbox, Select, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useNodes, useZones } from "../api/queries";
import { type Environment, useMove } from "../api/works";
import { title } from "../format";
import { Ask } from "./work-row";

/** The button that moves an environment, and what it asks. */
export function MoveHome({ name, env }: { name: string; env: Environment }) {
  const { t } = useTranslation();
  const move = useMove(name);
  const [zone, setZone] = useState("");
  const [node, setNode] = useState("");
  const [withoutLayer, setLayer] = useState(false);
  return (
    <Ask
      word={t("env.move")}
      title={t("env.moveTitle", { name: title(env) })}
      confirm={t("env.moveConfirm")}
      color="blue"
      variant="default"
      pending={move.isPending}
      error={move.error}
      onOpen={move.reset}
      act={(done) => move.mutate({ zone, node, withoutLayer }, { onSuccess: done })}
    >
      <Text size="sm">{t("env.moveText")}</Text>
      <Places zone={zone} node={node} onZone={setZone} onNode={setNode} />
      {env.spec.image && (
        <Checkbox
          label={t("env.moveLayer")}
          checked={withoutLayer}
          onChange={(event) => setLayer(event.currentTarget.checked)}
        />
      )}
    </Ask>
  );
}

/** Read when it is looked at, not before. */
function Places(props: { zone: string; node: string; onZone: (zone: string) => void; onNode: (node: string) => void }) {
  const { t } = useTranslation();
  const zones = useZones();
  const nodes = useNodes();
  const there = (nodes.data?.items ?? []).filter((n) => !props.zone || n.spec.zone === props.zone);
  return (
    <>
      <Select
        label={t("tasks.zone")}
        data={(zones.data?.items ?? []).map((z) => ({ value: z.metadata.name ?? "", label: title(z) }))}
        value={props.zone || null}
        onChange={(zone) => {
          props.onZone(zone ?? "");
          props.onNode("");
        }}
        clearable
        searchable
      />
      <Autocomplete
        label={t("env.moveNode")}
        description={t("env.moveNodeHint")}
        data={there.map((n) => n.metadata.name ?? "")}
        limit={20}
        value={props.node}
        onChange={props.onNode}
      />
    </>
  );
}
