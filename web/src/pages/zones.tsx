import { Badge, Group, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Zone } from "../api/client";
import { useDevices, useNodes, useZones } from "../api/queries";
import { groupBy, type NodePicture, picture, said, title } from "../format";
import { Legend, NodeBlock } from "../parts/devices";
import { useLanguage } from "../parts/now";
import { Empty, LiveLight, Panel, View } from "../parts/states";

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
  const { deviceHour, currency } = zone.spec.price ?? {};
  return (
    <Panel
      title={title(zone)}
      right={
        <Badge color={degraded ? "orange" : "green"} variant="light" tt="none" style={{ flexShrink: 0 }}>
          {degraded ? t("zones.degraded") : t("zones.healthy")}
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
      </Stack>
    </Panel>
  );
}

/** Good for training, between, or far. */
function shade(ms: number): string {
  if (ms < 2) return "color-mix(in srgb, #2f9e44 22%, transparent)";
  if (ms < 5) return "color-mix(in srgb, #e8950c 18%, transparent)";
  return "color-mix(in srgb, #e03131 14%, transparent)";
}

function Latency({ zones }: { zones: readonly Zone[] }) {
  const { t } = useTranslation();
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
                {zones.map((to) => {
                  const ms = from.spec.latencyMs?.[to.metadata.name ?? ""];
                  const self = from.metadata.id === to.metadata.id;
                  return (
                    <Table.Td key={to.metadata.id} style={{ background: ms === undefined ? undefined : shade(ms) }}>
                      {ms !== undefined ? (
                        ms
                      ) : (
                        <Text span c="dimmed" size="sm">
                          {self ? "—" : t("zones.unknownLatency")}
                        </Text>
                      )}
                    </Table.Td>
                  );
                })}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Text size="xs" c="dimmed">
        {t("zones.latencyHint")}
      </Text>
    </Stack>
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
            <Text size="xs" truncate title={p.node.spec.devices?.[0]?.type}>
              {p.node.metadata.name}
            </Text>
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
  return (
    <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
      {t("zones.free", { free, total: p.devices.length })}
    </Text>
  );
}
