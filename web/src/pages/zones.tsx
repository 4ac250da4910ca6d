import { Badge, Button, Group, List, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { between, type Distance, millis, note } from "../apart";
import type { Zone } from "../api/client";
import { useOutage, useOutagePreview } from "../api/nodes";
import { useDevices, useNodes, useWhoami, useZoneMatrix, useZones } from "../api/queries";
import { groupBy, type NodePicture, picture, said, title } from "../format";
import { Bookings } from "../parts/bookings";
import { Legend, NodeBlock } from "../parts/devices";
import { Leaving } from "../parts/leaving";
import { AnchorLink } from "../parts/link";
import { useLanguage } from "../parts/now";
import { Empty, Failure, LiveLight, Panel, View } from "../parts/states";
import { Ask } from "../parts/work-row";

/** So many nodes are drawn; of the others only the number is told. */
const shownNodes = 600;

export function Zones() {
  const { t } = useTranslation();
  const zones = useZones();
  const nodes = useNodes();
  const uses = useDevices();
  const all = {
    data: nodes.data && uses.data ? picture(nodes.data.items, uses.data.items) : undefined,
    error: nodes.error ?? uses.error,
    refetch: () => Promise.all([nodes.refetch(), uses.refetch()]),
  };
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={1} size="h3">
          {t("zones.title")}
        </Title>
        <LiveLight state={nodes.live} />
      </Group>
      <View read={zones} empty={(d) => d.items.length === 0} whenEmpty={<Empty text={t("zones.empty")} />}>
        {(d) => (
          <Stack>
            <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }}>
              {d.items.map((z) => (
                <ZoneCard key={z.metadata.id} zone={z} />
              ))}
            </SimpleGrid>
            <Panel title={t("zones.latency")}>
              <Latency zones={d.items} />
            </Panel>
            <Bookings zones={d.items} />
            <Panel title={t("zones.racks")} right={<Legend />}>
              <View read={all} empty={(a) => a.length === 0} whenEmpty={<Empty text={t("overview.noNodes")} />}>
                {(a) => <Racks zones={d.items} nodes={a} />}
              </View>
            </Panel>
          </Stack>
        )}
      </View>
    </Stack>
  );
}

function ZoneCard({ zone }: { zone: Zone }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const degraded = zone.status?.health === "degraded";
  const role = useWhoami().data?.role;
  const operates = role === "admin" || role === "operator";
  const { deviceHour, currency } = zone.spec.price ?? {};
  return (
    <Panel
      title={title(zone)}
      right={
        <Badge
          color={zone.spec.outage ? "red" : degraded ? "orange" : "green"}
          variant="light"
          tt="none"
          style={{ flexShrink: 0 }}
        >
          {zone.spec.outage ? t("zones.out") : degraded ? t("zones.degraded") : t("zones.healthy")}
        </Badge>
      }
    >
      <Stack gap={2}>
        <Text size="sm">{t("zones.nodes", { ready: zone.status?.ready ?? 0, count: zone.status?.nodes ?? 0 })}</Text>
        <Text size="sm" c="dimmed">
          {zone.spec.region}
          {zone.spec.consoleLatencyMs !== undefined && ` · ${zone.spec.consoleLatencyMs} ms`}
        </Text>
        {deviceHour !== undefined && (
          <Text size="sm" c="dimmed">
            {t("zones.price", { price: `${deviceHour} ${currency || "CNY"}` })}
          </Text>
        )}
        {degraded && (
          <Text size="sm" className="break">
            {said(zone.status?.message, lang)}
          </Text>
        )}
        {operates && <OutOrBack zone={zone} />}
      </Stack>
    </Panel>
  );
}

/** Takes a zone out after showing what becomes of the tasks there, or takes that back. */
function OutOrBack({ zone }: { zone: Zone }) {
  const { t } = useTranslation();
  const name = zone.metadata.name ?? "";
  const outage = useOutage(name);
  const [looked, look] = useState(false);
  const leaving = useOutagePreview(name, looked);
  if (zone.spec.outage) {
    return (
      <Stack gap="xs" align="flex-start" mt="xs">
        <Button size="xs" loading={outage.isPending} onClick={() => outage.mutate(false)}>
          {t("zones.recover")}
        </Button>
        {outage.error && <Failure error={outage.error} />}
      </Stack>
    );
  }
  return (
    <Group mt="xs">
      <Ask
        word={t("zones.takeOut")}
        size="xs"
        variant="default"
        title={t("zones.takeOutTitle", { name: title(zone) })}
        confirm={t("zones.takeOutConfirm")}
        pending={outage.isPending}
        error={outage.error}
        onOpen={() => {
          outage.reset();
          look(true);
          void leaving.refetch();
        }}
        act={(done) => outage.mutate(true, { onSuccess: done })}
      >
        <Text size="sm">{t("zones.takeOutText")}</Text>
        <Leaving read={leaving} />
      </Ask>
    </Group>
  );
}

/** Good for training, between, or far. */
function shade(ms: number): string {
  if (ms < 2) return "color-mix(in srgb, #2f9e44 22%, transparent)";
  if (ms < 5) return "color-mix(in srgb, #e8950c 18%, transparent)";
  return "color-mix(in srgb, #e03131 14%, transparent)";
}

function Latency({ zones }: { zones: readonly Zone[] }) {
  const matrix = useZoneMatrix();
  return <View read={matrix}>{(items) => <Matrix zones={zones} items={items} />}</View>;
}

function Matrix({ zones, items }: { zones: readonly Zone[]; items: readonly Distance[] }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const name = (zone: string) => title(zones.find((z) => z.metadata.name === zone) ?? { metadata: { name: zone } });
  const virtual = items.filter((d) => !d.measured && d.oneMachine);
  return (
    <Stack gap="xs">
      <Table.ScrollContainer minWidth={480}>
        <Table withColumnBorders withTableBorder ta="center">
          <Table.Thead>
            <Table.Tr>
              <Table.Th scope="col">{t("zones.from")}</Table.Th>
              {zones.map((z) => (
                <Table.Th key={z.metadata.id} ta="center" scope="col">
                  {title(z)}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {zones.map((from) => (
              <Table.Tr key={from.metadata.id}>
                <Table.Th scope="row">{title(from)}</Table.Th>
                {zones.map((to) => (
                  <Cell
                    key={to.metadata.id}
                    self={from.metadata.id === to.metadata.id}
                    known={between(items, from.metadata.name ?? "", to.metadata.name ?? "")}
                  />
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {virtual.length > 0 && virtual.length === items.length ? (
        <Text size="sm">{t("zones.allOneMachine")}</Text>
      ) : (
        <List size="sm" aria-label={t("zones.measuredList")}>
          {items
            .filter((d) => d.measured || d.oneMachine)
            .map((d) => (
              <List.Item key={`${d.from} ${d.to}`} className="break">
                {name(d.from)} – {name(d.to)}: {note(d, t, lang)}
              </List.Item>
            ))}
        </List>
      )}
      <Text size="xs" c="dimmed">
        {t("zones.latencyHint")}
      </Text>
    </Stack>
  );
}

/** What is used, and below it what it stands beside. */
function Cell({ self, known }: { self: boolean; known: Distance | undefined }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  if (self || !known) {
    return (
      <Table.Td>
        <Text span c="dimmed" size="sm">
          {self ? "—" : t("zones.unknownLatency")}
        </Text>
      </Table.Td>
    );
  }
  const { declaredMs, measured, source, usedMs, oneMachine } = known;
  const beside =
    source === "measured"
      ? declaredMs === undefined
        ? t("zones.notDeclared")
        : t("zones.declaredAs", { ms: millis(declaredMs) })
      : measured
        ? t("zones.measuredAs", { ms: millis(measured.p50Ms) })
        : t(oneMachine ? "zones.oneMachineShort" : "zones.notMeasured");
  return (
    <Table.Td style={{ background: shade(usedMs) }} title={note(known, t, lang)}>
      <Text size="sm">
        {millis(usedMs)} ms{" "}
        <Text span size="xs">
          {t(`zones.source.${source}`)}
        </Text>
      </Text>
      <Text size="xs">{beside}</Text>
    </Table.Td>
  );
}

function Racks({ zones, nodes }: { zones: readonly Zone[]; nodes: readonly NodePicture[] }) {
  const by = groupBy(nodes.slice(0, shownNodes), (p) => p.node.spec.zone);
  return (
    <Stack gap="lg">
      {zones.map((z) => {
        const racks = groupBy(by.get(z.metadata.name ?? "") ?? [], (p) => p.node.spec.rack ?? "");
        return (
          <Stack key={z.metadata.id} gap="xs">
            <Text component="h3" fw={500} size="sm" m={0}>
              {title(z)}
            </Text>
            <SimpleGrid cols={{ base: 1, sm: 2, lg: 4 }}>
              {[...racks].map(([rack, inside]) => (
                <Rack key={rack} name={rack} nodes={inside} />
              ))}
            </SimpleGrid>
          </Stack>
        );
      })}
      {nodes.length > shownNodes && (
        <Text size="sm" c="dimmed">
          + {nodes.length - shownNodes}
        </Text>
      )}
    </Stack>
  );
}

function Rack({ name, nodes }: { name: string; nodes: readonly NodePicture[] }) {
  const { t } = useTranslation();
  return (
    <Stack gap={4} p="xs" style={{ border: "1px solid var(--mantine-color-default-border)", borderRadius: 8 }}>
      <Text size="xs" c="dimmed">
        {t("zones.rack")} {name}
      </Text>
      {nodes.map((p) => (
        <Group key={p.node.metadata.id} gap="xs" wrap="nowrap" justify="space-between">
          <Group gap="xs" wrap="nowrap" miw={0}>
            <NodeBlock picture={p} />
            <AnchorLink
              to="/nodes/$name"
              params={{ name: p.node.metadata.name ?? "" }}
              size="xs"
              truncate
              title={p.node.spec.devices?.[0]?.type}
            >
              {p.node.metadata.name}
            </AnchorLink>
          </Group>
          <NodeState picture={p} />
        </Group>
      ))}
    </Stack>
  );
}

function NodeState({ picture: p }: { picture: NodePicture }) {
  const { t } = useTranslation();
  const free = p.devices.filter((d) => d === "free").length;
  if (!p.node.status?.ready || p.node.spec.cordoned) {
    return (
      <Badge size="sm" color="red" variant="light" tt="none">
        {p.node.spec.cordoned ? t("zones.cordoned") : t("zones.notReady")}
      </Badge>
    );
  }
  const closed = p.devices.filter((d) => d === "down").length;
  return (
    <Text size="xs" c={closed > 0 ? "var(--mantine-color-error)" : "dimmed"} style={{ whiteSpace: "nowrap" }}>
      {closed > 0
        ? t("zones.freeClosed", { free, closed, total: p.devices.length })
        : t("zones.free", { free, total: p.devices.length })}
    </Text>
  );
}
