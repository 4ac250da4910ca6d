// One dataset: its versions, what lies in one, and the beginning of a file.
import { Code, Group, Stack, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Dataset, useDataset, useVersions, type Version } from "../api/shelf";
import { moment } from "../format";
import { Browser } from "../parts/files";
import { useLanguage } from "../parts/now";
import { Empty, Panel, View } from "../parts/states";
import { ShelfHead, VersionSelect } from "../parts/version";
import { origin, readable } from "../shelf";

const route = getRouteApi("/datasets/$name");

export function DatasetPage() {
  const { name } = route.useParams();
  const read = useDataset(name);
  return (
    <View read={read} rows={8}>
      {(d) => <Ready key={d.metadata.id} name={name} dataset={d} />}
    </View>
  );
}

function Ready({ name, dataset }: { name: string; dataset: Dataset }) {
  const { t } = useTranslation();
  const versions = useVersions("datasets", name);
  return (
    <Stack>
      <ShelfHead of={dataset} />
      <View
        read={versions}
        rows={6}
        empty={(list) => list.length === 0}
        whenEmpty={<Empty text={t("data.noVersions")} />}
      >
        {(list) => <Versions name={name} dataset={dataset} list={list} />}
      </View>
    </Stack>
  );
}

function Versions({ name, dataset, list }: { name: string; dataset: Dataset; list: readonly Version[] }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const [chosen, choose] = useState(list[0]?.spec.number ?? 0);
  const version = list.find((v) => v.spec.number === chosen) ?? list[0];
  const [at, go] = useState<{ folder: string; file?: string }>({ folder: "" });
  if (!version) return null;
  const call = `${dataset.metadata.name}@${version.spec.number}`;
  return (
    <>
      <Panel title={t("data.version")}>
        <Group gap="lg" align="flex-end">
          <VersionSelect
            list={list}
            chosen={version.spec.number}
            choose={(number) => {
              choose(number);
              go({ folder: "" });
            }}
          />
          <Text size="sm">
            {t("data.counts", { count: version.spec.files, n: version.spec.files, size: readable(version.spec.size) })}
          </Text>
          <Text size="sm">{t("data.fresh", { size: readable(version.spec.new) })}</Text>
          <Text size="sm" c="dimmed">
            {[moment(version.metadata.createdAt, lang), version.metadata.owner].filter(Boolean).join(" · ")}
          </Text>
        </Group>
        {origin(version) && (
          <Text size="sm" mt="xs" className="break">
            {t(version.spec.source ? "data.lies" : "data.from", { where: origin(version) })}
          </Text>
        )}
        {version.spec.message && (
          <Text size="sm" mt="xs" className="break">
            {version.spec.message}
          </Text>
        )}
        <Stack gap={4} mt="sm">
          <Text size="sm">{t("data.use")}</Text>
          <Code
            block
            tabIndex={0}
          >{`fermi train run --dataset ${call} -- python3 train.py    # ${t("data.at", { path: `/data/${dataset.metadata.name}` })}`}</Code>
        </Stack>
      </Panel>
      <Panel title={t("data.files")}>
        <Browser
          kind="datasets"
          name={name}
          version={version.spec.number}
          elsewhere={version.spec.source ? version : undefined}
          at={at}
          go={go}
        />
      </Panel>
    </>
  );
}
