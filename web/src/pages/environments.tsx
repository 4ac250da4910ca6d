import { Badge, Button, Card, Group, Stack, Table, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Environment, useCosts, useWorkStream, useWorks } from "../api/works";
import { duration, moment, said, title } from "../format";
import { cores } from "../hosts";
import { AnchorLink, ButtonLink } from "../parts/link";
import { useLanguage, useNow } from "../parts/now";
import { StandingBadge } from "../parts/standing";
import { Empty, LiveLight, View } from "../parts/states";
import { environmentStanding, money } from "../works";

export function Environments() {
  const { t } = useTranslation();
  const [search, setSearch] = useState("");
  const [looked] = useDebouncedValue(search, 250);
  const now = useNow();
  const list = useWorks("dev-environments", { search: looked });
  const live = useWorkStream("dev-environments", list.data?.pages[0]?.revision);
  return (
    <Stack>
      <Group justify="space-between">
        <Group>
          <Title order={1} size="h3">
            {t("env.title")}
          </Title>
          <LiveLight state={live} />
        </Group>
        <ButtonLink to="/environments/create" size="sm">
          {t("env.create")}
        </ButtonLink>
      </Group>
      <TextInput
        label={t("tasks.search")}
        value={search}
        maxLength={128}
        onChange={(e) => setSearch(e.currentTarget.value)}
        maw={360}
      />
      <Card withBorder padding={0}>
        <View
          read={list}
          rows={6}
          empty={(d) => (d.pages[0]?.items.length ?? 0) === 0}
          whenEmpty={
            <Empty text={looked === "" ? t("env.empty") : t("env.noMatch")}>
              {looked === "" && (
                <ButtonLink to="/environments/create" size="xs" variant="light">
                  {t("env.create")}
                </ButtonLink>
              )}
            </Empty>
          }
        >
          {(d) => <Rows items={d.pages.flatMap((p) => p.items)} now={now} />}
        </View>
      </Card>
      {list.hasNextPage && (
        <Button variant="default" onClick={() => void list.fetchNextPage()} loading={list.isFetchingNextPage}>
          {t("tasks.more")}
        </Button>
      )}
    </Stack>
  );
}

/** What an environment may use, in words. */
export function EnvironmentWish({ env }: { env: Environment }) {
  const { t } = useTranslation();
  const { accelerators, cpu, memory } = env.spec.resources ?? {};
  const count = accelerators?.count ?? 0;
  const parts: string[] = [
    count > 0 ? t("unit.devices", { count, type: accelerators?.type || t("unit.anyDevice") }) : t("unit.cpuOnly"),
  ];
  if (cpu) parts.push(t("work.cores", { count: cores(cpu), n: cores(cpu) }));
  if (memory) parts.push(memory);
  return <>{parts.join(" · ")}</>;
}

function Rows({ items, now }: { items: readonly Environment[]; now: number }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const first = items.map((e) => e.metadata.createdAt ?? "").filter(Boolean);
  const costs = useCosts(first.reduce<string | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined));
  return (
    <Table.ScrollContainer minWidth={820}>
      <Table highlightOnHover verticalSpacing="sm" horizontalSpacing="md">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("env.name")}</Table.Th>
            <Table.Th>{t("tasks.phase")}</Table.Th>
            <Table.Th>{t("env.type")}</Table.Th>
            <Table.Th>{t("tasks.resources")}</Table.Th>
            <Table.Th>{t("tasks.zone")}</Table.Th>
            <Table.Th>{t("work.cost")}</Table.Th>
            <Table.Th>{t("work.uptime")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {items.map((e) => {
            const { phase, startedAt, message, zones } = e.status ?? {};
            const running = phase === "Running" && startedAt;
            return (
              <Table.Tr key={e.metadata.id}>
                <Table.Td maw={300}>
                  <AnchorLink
                    to="/environments/$name"
                    params={{ name: e.metadata.id ?? "" }}
                    fw={500}
                    size="sm"
                    className="break"
                  >
                    {title(e)}
                  </AnchorLink>
                  <Text size="xs" c="dimmed" lineClamp={1} className="break">
                    {[e.metadata.project, e.metadata.owner].filter(Boolean).join(" · ")}
                    {e.spec.shared && (
                      <Badge size="xs" color="gray" variant="light" tt="none" ml={6}>
                        {t("env.shared")}
                      </Badge>
                    )}
                  </Text>
                </Table.Td>
                <Table.Td>
                  <StandingBadge {...environmentStanding(e)} />
                  {phase !== "Running" && phase !== "Stopped" && (
                    <Text size="xs" c="dimmed" lineClamp={2} maw={260} className="break">
                      {said(message, lang)}
                    </Text>
                  )}
                </Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>{t(`env.type.${e.spec.type ?? "custom"}`)}</Table.Td>
                <Table.Td>
                  <EnvironmentWish env={e} />
                </Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>{zones?.join(", ") || e.spec.zone || "—"}</Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>
                  <Cost id={e.metadata.id ?? ""} costs={costs.data} />
                </Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }} title={moment(startedAt, lang)}>
                  {running ? duration(now - Date.parse(startedAt), t) : "—"}
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** What it cost so far; nothing is said where that is not known. */
export function Cost({ id, costs }: { id: string; costs: ReturnType<typeof useCosts>["data"] }) {
  if (!costs) return <>—</>;
  const sums = costs.by.get(id)?.costs ?? [];
  if (sums.length === 0) return <>{costs.whole ? money(0, "CNY") : "—"}</>;
  return <>{sums.map((s) => money(s.total, s.currency)).join(" + ")}</>;
}
