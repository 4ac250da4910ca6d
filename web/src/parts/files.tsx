// What lies in a version of a dataset or model, and the beginning of a file.
import { Alert, Anchor, Badge, Breadcrumbs, Button, Code, Group, Stack, Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schemas } from "../api/client";
import { type Shelf, useFolder, useLook, usePreview, type Version } from "../api/shelf";
import { said } from "../format";
import { folderAbove, readable } from "../shelf";
import { AnchorLink } from "./link";
import { useLanguage } from "./now";
import { Empty, Failure, View } from "./states";

export function Browser({
  kind,
  name,
  version,
  elsewhere,
  at,
  go,
}: {
  kind: Shelf;
  name: string;
  version: number;
  /** It is kept by reference: a task has to look at its files where they lie. */
  elsewhere?: Version;
  at: { folder: string; file?: string };
  go: (at: { folder: string; file?: string }) => void;
}) {
  const { t } = useTranslation();
  const read = useFolder(kind, name, version, at.folder);
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
      {at.file && elsewhere && <Look key={at.file} name={name} version={elsewhere} path={at.file} />}
      {at.file && !elsewhere && <Preview key={at.file} kind={kind} name={name} version={version} path={at.file} />}
    </Stack>
  );
}

/** A file that lies elsewhere: looked at when somebody asks for it. */
function Look({ name, version, path }: { name: string; version: Version; path: string }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const { begin, seen, task } = useLook(name, version, path);
  const now = seen.data;
  return (
    <Stack gap="xs" component="section" aria-label={t("data.preview", { name: path })}>
      <Text size="sm" fw={600} className="break">
        {path}
      </Text>
      <Text size="sm">{t("data.elsewhere")}</Text>
      {!now?.over && (
        <Group gap="xs">
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => begin.mutate()}
            loading={begin.isPending || (!!task && !seen.error)}
          >
            {t("data.look")}
          </Button>
          {now?.waits && <Text size="sm">{said(now.waits, lang)}</Text>}
        </Group>
      )}
      {begin.error && <Failure error={begin.error} />}
      {seen.error && <Failure error={seen.error} />}
      {now?.preview && <Shown p={now.preview} path={path} />}
      {now?.over && !now.preview && task && (
        <Alert color="red" variant="light" p="xs">
          {said(now.failed, lang) || t("data.lookNothing")}{" "}
          <AnchorLink to="/tasks/$name" params={{ name: task }} size="sm">
            {task}
          </AnchorLink>
        </Alert>
      )}
    </Stack>
  );
}

function Preview({ kind, name, version, path }: { kind: Shelf; name: string; version: number; path: string }) {
  const { t } = useTranslation();
  const read = usePreview(kind, name, version, path);
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

/** What a picture may be; what a task left is looked at like anything from outside. */
const pictures = ["image/png", "image/jpeg", "image/gif"];

/** What the server says a file begins with: text stays text, a picture is one that its header says it is. */
function Shown({ p, path }: { p: Schemas["AssetPreview"]; path: string }) {
  const { t } = useTranslation();
  if (p.kind === "image" && p.image && p.media && pictures.includes(p.media)) {
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
