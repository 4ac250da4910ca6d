import { Badge, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { lazy, Suspense } from "react";
import { useTranslation } from "react-i18next";
import type { Zone } from "../api/client";
import {
  type Phase,
  useDevices,
  useNodes,
  useQueues,
  useTaskStream,
  useTasks,
  useWhoami,
  useZones,
} from "../api/queries";
import { groupBy, type NodePicture, picture, title } from "../format";
import { DeviceMap, Legend } from "../parts/devices";
import { AnchorLink, ButtonLink } from "../parts/link";
import { useNow } from "../parts/now";
import { Empty, LiveLight, Loading, Panel, View } from "../parts/states";
import { TaskRow } from "../parts/task-row";

const Figures = lazy(() => import("../parts/figures"));
const Works = lazy(() => import("../parts/overview-works"));
const active: Phase[] = ["Running", "Initializing", "Recovering"];
const few = 5;

export function Overview() {
  const { t } = useTranslation();
  const now = useNow();
  const running = useTasks({ phase: active, limit: few });
  const waiting = useTasks({ phase: ["Pending"], limit: few });
  const failed = useTasks({ phase: ["Failed"], limit: few });
  const queues = useQueues();
  const live = useTaskStream(running.data?.pages[0]?.revision);
  const who = useWhoami();
  const all = who.data === undefined || who.data.seesAll === true;
  const count = (what: "runningTasks" | "pendingTasks") =>
    queues.data?.items.reduce((n, q) => n + (q.status?.[what] ?? 0), 0);
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={1} size="h3">
          {t("overview.title")}
        </Title>
        <LiveLight state={live} />
      </Group>
      <SimpleGrid cols={{ base: 1, md: 3 }}>
        <Short
          title={t("overview.running")}
          count={count("runningTasks")}
          read={running}
          whole={who.data && Boolean(who.data.seesAll)}
          phase={active}
          empty={all ? t("overview.nothingRunning") : t("overview.mineRunning")}
          now={now}
          offer
        />
        <Short
          title={t("overview.waiting")}
          count={count("pendingTasks")}
          read={waiting}
          whole={who.data && Boolean(who.data.seesAll)}
          phase={["Pending"]}
          empty={all ? t("overview.nothingWaiting") : t("overview.mineWaiting")}
          now={now}
        />
        <Short
          title={t("overview.failed")}
          read={failed}
          phase={["Failed"]}
          empty={all ? t("overview.nothingFailed") : t("overview.mineFailed")}
          now={now}
        />
      </SimpleGrid>
      <Suspense
        fallback={
          <Panel>
            <Loading rows={5} />
          </Panel>
        }
      >
        <Works now={now} />
        <Figures />
      </Suspense>
      <Devices />
    </Stack>
  );
}

function Short(props: {
  title: string;
  count?: number;
  read: ReturnType<typeof useTasks>;
  phase: Phase[];
  empty: string;
  now: number;
  offer?: boolean;
  /** Whether one sees all tasks that are counted. */
  whole?: boolean;
}) {
  const { t } = useTranslation();
  const page = props.read.data?.pages[0];
  const others = page && !page.next && props.whole === false ? (props.count ?? 0) - page.items.length : 0;
  const more = (
    <AnchorLink
      to="/tasks"
      search={{ phase: props.phase }}
      size="sm"
      aria-label={`${t("overview.all")}: ${props.title}`}
    >
      {t("overview.all")}
    </AnchorLink>
  );
  const heading = (
    <>
      {props.title}
      {props.count !== undefined && (
        <Text span c="dimmed" ml={8} inherit>
          {props.count}
        </Text>
      )}
    </>
  );
  return (
    <Panel title={heading} right={more}>
      <View
        read={props.read}
        empty={(d) => (d.pages[0]?.items.length ?? 0) === 0}
        whenEmpty={
          <Empty text={props.empty}>
            {props.offer && (
              <ButtonLink to="/create" size="xs" variant="light">
                {t("nav.create")}
              </ButtonLink>
            )}
          </Empty>
        }
      >
        {(d) => (
          <Stack gap="sm">
            {d.pages[0]?.items.map((task) => (
              <TaskRow key={task.metadata.id} task={task} now={props.now} />
            ))}
          </Stack>
        )}
      </View>
      {others > 0 && (
        <Text size="xs" c="dimmed" mt="sm">
          {t("overview.others", { count: others })}
        </Text>
      )}
    </Panel>
  );
}

function Devices() {
  const { t } = useTranslation();
  const zones = useZones();
  const nodes = useNodes();
  const uses = useDevices();
  const read = {
    data:
      zones.data && nodes.data && uses.data
        ? { zones: zones.data.items, all: picture(nodes.data.items, uses.data.items) }
        : undefined,
    error: zones.error ?? nodes.error ?? uses.error,
    refetch: () => Promise.all([zones.refetch(), nodes.refetch(), uses.refetch()]),
  };
  return (
    <Panel title={t("overview.devices")} right={<Legend />}>
      <View read={read} empty={(d) => d.all.length === 0} whenEmpty={<Empty text={t("overview.noNodes")} />}>
        {(d) => {
          const by = groupBy(d.all, (p) => p.node.spec.zone);
          return (
            <SimpleGrid cols={{ base: 1, md: 2 }} spacing="xl" verticalSpacing="lg">
              {d.zones.map((z) => (
                <ZoneDevices key={z.metadata.id} zone={z} nodes={by.get(z.metadata.name ?? "") ?? []} />
              ))}
            </SimpleGrid>
          );
        }}
      </View>
    </Panel>
  );
}

function ZoneDevices({ zone, nodes }: { zone: Zone; nodes: NodePicture[] }) {
  const { t } = useTranslation();
  const total = nodes.reduce((n, p) => n + p.devices.length, 0);
  const used = nodes.reduce((n, p) => n + p.used, 0);
  return (
    <Stack gap={8}>
      <Group justify="space-between" gap="xs">
        <Group gap="xs">
          <Text fw={500} size="sm">
            {title(zone)}
          </Text>
          {zone.status?.health === "degraded" && (
            <Badge color="orange" variant="light" size="sm" tt="none">
              {t("zones.degraded")}
            </Badge>
          )}
          {zone.spec.virtual && (
            <Badge color="gray" variant="light" size="sm" tt="none" title={t("overview.virtualHint")}>
              {t("overview.virtual")}
            </Badge>
          )}
        </Group>
        <Text size="xs" c="dimmed">
          {t("overview.devicesUsed", { used, total })}
        </Text>
      </Group>
      <DeviceMap zone={title(zone)} nodes={nodes} />
    </Stack>
  );
}
