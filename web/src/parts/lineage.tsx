// A picture of where a version comes from and where it goes: columns from left to right, with arrows between them.
import { Card, Group, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { type Lineage, type Shelf, useDatasets, useModels } from "../api/shelf";
import { AnchorLink } from "./link";

/** A column of the picture: what it is, and what stands in it. */
function Column({ title, children, strong }: { title: string; children: ReactNode; strong?: boolean }) {
  return (
    <Card
      withBorder
      padding="xs"
      miw={120}
      component="li"
      bg={strong ? "var(--mantine-primary-color-light)" : undefined}
    >
      <Text size="xs" c="dimmed">
        {title}
      </Text>
      <Stack gap={2}>{children}</Stack>
    </Card>
  );
}

interface VersionRef {
  kind: Shelf;
  name: string;
  version: number;
}

/** A version of a dataset or model of the project; its page is found by its id. */
function AnyVersion({ project, of: { kind, name, version } }: { project: string; of: VersionRef }) {
  const datasets = useDatasets();
  const models = useModels();
  const there = ({ metadata }: { metadata: { name?: string; project?: string } }) =>
    metadata.name === name && metadata.project === project;
  const id = (kind === "datasets" ? datasets.data?.find(there) : models.data?.find(there))?.metadata.id;
  const text = `${name}@${version}`;
  if (!id)
    return (
      <Text size="sm" className="break">
        {text}
      </Text>
    );
  return kind === "datasets" ? (
    <AnchorLink to="/datasets/$name" params={{ name: id }} size="sm" className="break">
      {text}
    </AnchorLink>
  ) : (
    <AnchorLink to="/models/$name" params={{ name: id }} size="sm" className="break">
      {text}
    </AnchorLink>
  );
}

/** Work that reads it. */
function Use({ use }: { use: NonNullable<Lineage["usedBy"]>[number] }) {
  const look = { size: "sm", className: "break" } as const;
  const params = { name: use.id };
  return (
    <Group gap={6} wrap="nowrap">
      {use.kind === "InferenceService" ? (
        <AnchorLink to="/services/$name" params={params} {...look}>
          {use.name}
        </AnchorLink>
      ) : use.kind === "TrainingTask" ? (
        <AnchorLink to="/tasks/$name" params={params} {...look}>
          {use.name}
        </AnchorLink>
      ) : use.kind === "DevEnvironment" ? (
        <AnchorLink to="/environments/$name" params={params} {...look}>
          {use.name}
        </AnchorLink>
      ) : (
        <Text {...look}>{use.name}</Text>
      )}
      <Text size="xs" c="dimmed">
        {use.phase}
      </Text>
    </Group>
  );
}

const version = (kind: Shelf) => (v: { name: string; version: number }) => ({ kind, name: v.name, version: v.version });

export function Lines({ call, project, of }: { call: string; project: string; of: Lineage | undefined }) {
  const { t } = useTranslation();
  const origin = of?.origin;
  const from = [...(origin?.datasets ?? []).map(version("datasets")), ...(origin?.models ?? []).map(version("models"))];
  const made = (of?.models ?? []).map(
    (m): VersionRef => ({
      kind: m.dataset ? "datasets" : "models",
      name: m.dataset ?? m.model ?? "",
      version: m.version,
    }),
  );
  const list = (versions: readonly VersionRef[]) =>
    versions.map((v) => <AnyVersion key={`${v.kind} ${v.name}@${v.version}`} project={project} of={v} />);
  const columns = [
    from.length > 0 && { word: "lineage.data" as const, what: list(from) },
    origin?.task && {
      word: "lineage.task" as const,
      what: (
        <>
          <AnchorLink to="/tasks/$name" params={{ name: origin.taskId ?? origin.task }} size="sm" className="break">
            {origin.task}
          </AnchorLink>
          {origin.checkpoint ? <Text size="xs">{t("lineage.checkpoint", { step: origin.checkpoint })}</Text> : null}
        </>
      ),
    },
    {
      word: "lineage.this" as const,
      what: (
        <>
          <Text size="sm" fw={600} className="break">
            {call}
          </Text>
          {!origin?.task && <Text size="xs">{t(origin?.imported ? "lineage.imported" : "lineage.upload")}</Text>}
        </>
      ),
    },
    of?.usedBy?.length && {
      word: "lineage.uses" as const,
      what: of.usedBy.map((u) => <Use key={`${u.kind} ${u.id}`} use={u} />),
    },
    made.length > 0 && { word: "lineage.made" as const, what: list(made) },
  ].filter((c) => typeof c === "object");
  return (
    <Stack gap="xs">
      <Group gap="xs" align="center" component="ol" p={0} m={0} style={{ listStyle: "none" }}>
        {columns.flatMap(({ word, what }, i) => [
          ...(i > 0
            ? [
                <li key={`to ${word}`} aria-hidden="true">
                  →
                </li>,
              ]
            : []),
          <Column key={word} title={t(word)} strong={word === "lineage.this"}>
            {what}
          </Column>,
        ])}
      </Group>
      {columns.length === 1 && (
        <Text size="sm" c="dimmed">
          {t("lineage.none")}
        </Text>
      )}
    </Stack>
  );
}
