// One dataset: its versions, what lies in one, and the beginning of a file.
import {
  Alert,
  Anchor,
  Badge,
  Breadcrumbs,
  Button,
  Code,
  Group,
  Select,
  Stack,
  Table,
  Text,
  Title,
} from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Schemas } from "../api/client";
import { type Dataset, useDataset, useFolder, usePreview, useVersions, type Version } from "../api/shelf";
import { moment, title } from "../format";
import { useLanguage } from "../parts/now";
import { Empty, Panel, View } from "../parts/states";
import { folderAbove, origin, readable } from "../shelf";

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
  const versions = useVersions(name);
  return (
    <Stack>
      <Stack gap={4}>
        <Title order={1} size="h3" className="break">
          {title(dataset)}
        </Title>
        <Text size="sm" c="dimmed" className="break">
          {[dataset.metadata.name, dataset.metadata.project, dataset.spec.description].filter(Boolean).join(" · ")}
        </Text>
      </Stack>
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
          <Select
            label={t("data.number")}
            data={list.map((v) => ({ value: String(v.spec.number), label: `@${v.spec.number}` }))}
            value={String(version.spec.number)}
            onChange={(v) => {
              if (v === null) return;
              choose(Number(v));
              go({ folder: "" });
            }}
            allowDeselect={false}
            w={140}
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
        <Browser name={name} version={version.spec.number} elsewhere={!!version.spec.source} at={at} go={go} />
      </Panel>
    </>
  );
}

function Browser({
  name,
  version,
  elsewhere,
  at,
  go,
}: {
  name: string;
  version: number;
  elsewhere: boolean;
  at: { folder: string; file?: string };
  go: (at: { folder: string; file?: string }) => void;
}) {
  const { t } = useTranslation();
  const read = useFolder(name, version, at.folder);
  const parts = at.folder === "" ? [] : at.folder.split("/");
  return (
    <Stack gap="sm">
      <Breadcrumbs separatorMargin={4}>
        <Anchor component="button" type="button" size="sm" onClick={() => go({ folder: "" })}>
          {t("data.top")}
        </Anchor>
        {parts.map((part, i) => (
          <Anchor
            key={parts.slice(0, i + 1).join("/")}
            component="button"
            type="button"
            size="sm"
            onClick={() => go({ folder: parts.slice(0, i + 1).join("/") })}
          >
            {part}
          </Anchor>
        ))}
      </Breadcrumbs>
      <View
        read={read}
        rows={6}
        empty={(d) => (d.items ?? []).length === 0}
        whenEmpty={<Empty text={t("data.nothing")} />}
      >
        {(d) => (
          <Table.ScrollContainer minWidth={420} mah={420}>
            <Table verticalSpacing={4}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{t("data.file")}</Table.Th>
                  <Table.Th>{t("data.size")}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {(d.items ?? []).map((e) => {
                  const path = at.folder === "" ? e.name : `${at.folder}/${e.name}`;
                  return (
                    <Table.Tr key={e.name}>
                      <Table.Td>
                        <Anchor
                          component="button"
                          type="button"
                          size="sm"
                          className="break"
                          onClick={() => go(e.dir ? { folder: path } : { folder: at.folder, file: path })}
                        >
                          {e.dir ? `${e.name}/` : e.name}
                        </Anchor>
                      </Table.Td>
                      <Table.Td style={{ whiteSpace: "nowrap" }}>
                        {readable(e.size)}
                        {e.dir && (
                          <Text span size="xs" c="dimmed" ml={6}>
                            {t("data.inside", { count: e.files ?? 0, n: e.files ?? 0 })}
                          </Text>
                        )}
                      </Table.Td>
                    </Table.Tr>
                  );
                })}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </View>
      {read.data?.next && <Text size="xs">{t("data.cutList")}</Text>}
      {at.folder !== "" && (
        <Group>
          <Button size="compact-sm" variant="default" onClick={() => go({ folder: folderAbove(at.folder) })}>
            {t("data.up")}
          </Button>
        </Group>
      )}
      {at.file && elsewhere && <Text size="sm">{t("data.elsewhere")}</Text>}
      {at.file && !elsewhere && <Preview key={at.file} name={name} version={version} path={at.file} />}
    </Stack>
  );
}

function Preview({ name, version, path }: { name: string; version: number; path: string }) {
  const { t } = useTranslation();
  const read = usePreview(name, version, path);
  return (
    <Stack gap="xs" component="section" aria-label={t("data.preview", { name: path })}>
      <Group gap="xs">
        <Text size="sm" fw={600} className="break">
          {path}
        </Text>
        {read.data?.cut && (
          <Badge size="sm" color="gray" variant="light" tt="none">
            {t("data.cut")}
          </Badge>
        )}
      </Group>
      <View read={read} rows={6}>
        {(p) => <Shown p={p} path={path} />}
      </View>
    </Stack>
  );
}

/** What the server says a file begins with: text stays text, a picture is one that its header says it is. */
function Shown({ p, path }: { p: Schemas["AssetPreview"]; path: string }) {
  const { t } = useTranslation();
  if (p.kind === "image" && p.image && p.media) {
    return <img src={`data:${p.media};base64,${p.image}`} alt={path} style={{ maxWidth: "100%", maxHeight: 480 }} />;
  }
  if (p.kind === "table") {
    return (
      <Table.ScrollContainer minWidth={400} mah={420}>
        <Table verticalSpacing={4} withTableBorder>
          <Table.Thead>
            <Table.Tr>
              {(p.columns ?? []).map((c, i) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns may have one name
                <Table.Th key={i}>{c}</Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {(p.rows ?? []).map((row, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: rows have no names
              <Table.Tr key={i}>
                {(row ?? []).map((cell, j) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: cells have no names
                  <Table.Td key={j} className="break">
                    {cell}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    );
  }
  if (p.kind === "text") {
    return (
      <Code block tabIndex={0} style={{ maxHeight: 420, overflow: "auto" }}>
        {p.text}
      </Code>
    );
  }
  return (
    <Alert color="gray" variant="light" p="xs">
      {p.kind === "empty" ? t("data.emptyFile") : t("data.binary", { size: readable(p.size) })}
    </Alert>
  );
}
