// One model: its versions, where each comes from and goes, what was measured of it, and its files.
import { Badge, Code, Group, Stack, Table, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Model, useLineage, useModel, useVersions, type Version } from "../api/shelf";
import { moment } from "../format";
import { Browser } from "../parts/files";
import { Lines } from "../parts/lineage";
import { useLanguage } from "../parts/now";
import { Empty, Panel, View } from "../parts/states";
import { ShelfHead, VersionSelect } from "../parts/version";
import { readable } from "../shelf";

const route = getRouteApi("/models/$name");

export function ModelPage() {
  const { name } = route.useParams();
  const read = useModel(name);
  return (
    <View read={read} rows={8}>
      {(m) => <Ready key={m.metadata.id} name={name} model={m} />}
    </View>
  );
}

function Ready({ name, model }: { name: string; model: Model }) {
  const { t } = useTranslation();
  const versions = useVersions("models", name);
  return (
    <Stack>
      <ShelfHead of={model} />
      <View
        read={versions}
        rows={6}
        empty={(list) => list.length === 0}
        whenEmpty={<Empty text={t("data.noVersions")} />}
      >
        {(list) => <Versions name={name} model={model} list={list} />}
      </View>
      {model.spec.card && (
        <Panel title={t("models.card")}>
          <Text size="sm" className="break" style={{ whiteSpace: "pre-wrap" }}>
            {model.spec.card}
          </Text>
        </Panel>
      )}
    </Stack>
  );
}

function Versions({ name, model, list }: { name: string; model: Model; list: readonly Version[] }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const [chosen, choose] = useState(list[0]?.spec.number ?? 0);
  const version = list.find((v) => v.spec.number === chosen) ?? list[0];
  const [at, go] = useState<{ folder: string; file?: string }>({ folder: "" });
  const lineage = useLineage("models", name);
  if (!version) return null;
  const { spec, metadata } = version;
  const known = [
    ...Object.entries(model.spec.aliases ?? {}).flatMap(([alias, n]) => (n === spec.number ? [alias] : [])),
    ...Object.entries(model.spec.stages ?? {}).flatMap(([n, stage]) => (Number(n) === spec.number ? [stage] : [])),
  ];
  const said = Object.entries(spec.metadata ?? {}).sort(([a], [b]) => a.localeCompare(b));
  return (
    <>
      <Panel title={t("data.version")}>
        <Group gap="lg" align="flex-end">
          <VersionSelect
            list={list}
            chosen={spec.number}
            choose={(number) => {
              choose(number);
              go({ folder: "" });
            }}
          />
          <Text size="sm">
            {spec.format ?? "—"} · {t("data.counts", { count: spec.files, n: spec.files, size: readable(spec.size) })}
          </Text>
          {known.map((word) => (
            <Badge key={word} variant="light" tt="none">
              {word}
            </Badge>
          ))}
          <Text size="sm" c="dimmed">
            {[moment(metadata.createdAt, lang), metadata.owner].filter(Boolean).join(" · ")}
          </Text>
        </Group>
        {spec.message && (
          <Text size="sm" mt="xs" className="break">
            {spec.message}
          </Text>
        )}
        <Stack gap={4} mt="sm">
          <Text size="sm">{t("models.use")}</Text>
          <Code
            block
            tabIndex={0}
          >{`fermi service create NAME --engine … --model ${model.metadata.name}@${spec.number}`}</Code>
        </Stack>
      </Panel>
      <Panel title={t("lineage.title")}>
        <View read={lineage} rows={3}>
          {(all) => (
            <Lines
              call={`${model.metadata.name}@${spec.number}`}
              project={model.metadata.project ?? ""}
              of={all.find((v) => v.number === spec.number)}
            />
          )}
        </View>
      </Panel>
      {said.length > 0 && (
        <Panel title={t("models.measured")}>
          <Table.ScrollContainer minWidth={320}>
            <Table verticalSpacing={4}>
              <Table.Tbody>
                {said.map(([key, value]) => (
                  <Table.Tr key={key}>
                    <Table.Th scope="row" style={{ whiteSpace: "nowrap" }}>
                      {key}
                    </Table.Th>
                    <Table.Td className="break">{value}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </Panel>
      )}
      <Panel title={t("data.files")}>
        <Browser kind="models" name={name} version={spec.number} at={at} go={go} />
      </Panel>
    </>
  );
}
