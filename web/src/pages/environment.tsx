import { Button, Group, Stack, Tabs, Text } from "@mantine/core";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { useLog, useWhoami } from "../api/queries";
import {
  type Environment,
  useCosts,
  useDelete,
  useStays,
  useWork,
  useWorkEvents,
  useWorkVerb,
  useWorkWhy,
} from "../api/works";
import { duration, moment, said, title } from "../format";
import { ActivityTable } from "../parts/activity";
import { ChangeEnvironment } from "../parts/change-environment";
import { PageHead } from "../parts/head";
import { AnchorLink } from "../parts/link";
import { LogView } from "../parts/log-view";
import { MoveHome } from "../parts/move-home";
import { useLanguage, useNow } from "../parts/now";
import { Shells } from "../parts/shells";
import { StandingBadge } from "../parts/standing";
import { Empty, Failure, LiveLight, Loading, Panel, View } from "../parts/states";
import { WaysIn } from "../parts/ways";
import { Ask, EventList, Facts, WhyBox } from "../parts/work-row";
import { Yaml } from "../parts/yaml";
import { environmentStanding, isMoving, isOff, isSaving } from "../works";
import { Cost, EnvironmentWish } from "./environments";

const Manifest = lazy(() => import("../parts/manifest"));
const route = getRouteApi("/environments/$name");
const kind = "dev-environments";

export function EnvironmentPage() {
  const { name } = route.useParams();
  const read = useWork(kind, name);
  return (
    <View read={read} rows={10}>
      {(env) => <Ready key={env.metadata.id} name={name} env={env} live={<LiveLight state={read.live} />} />}
    </View>
  );
}

function Ready({ name, env, live }: { name: string; env: Environment; live: React.ReactNode }) {
  const { t } = useTranslation();
  const why = useWorkWhy(kind, name);
  const who = useWhoami();
  const phase = env.status?.phase ?? "Pending";
  const running = phase === "Running" && !isSaving(env) && !env.spec.stop && !env.metadata.deletedAt;
  const mine = who.data?.role === "admin" || who.data?.user === env.metadata.owner;
  const [tab, choose] = useState<string | null>(null);
  const shown = tab ?? (running ? "terminal" : "events");
  return (
    <Stack>
      <PageHead
        title={title(env)}
        badge={<StandingBadge {...environmentStanding(env)} />}
        live={live}
        about={
          <>
            {env.metadata.name} · <EnvironmentWish env={env} />
            {env.metadata.project && ` · ${env.metadata.project}`}
            {env.metadata.owner && ` · ${env.metadata.owner}`}
          </>
        }
        description={env.spec.description}
      >
        {mine && <Actions name={name} env={env} />}
      </PageHead>
      {!running && phase !== "Stopped" && !env.metadata.deletedAt && <WhyBox read={why} bad={phase === "Failed"} />}
      <Panel title={t("work.about")}>
        <About name={name} env={env} />
      </Panel>
      <Tabs value={shown} onChange={choose} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="terminal">{t("shell.title")}</Tabs.Tab>
          <Tabs.Tab value="ways">{t("ways.title")}</Tabs.Tab>
          <Tabs.Tab value="activity">{t("env.activity")}</Tabs.Tab>
          <Tabs.Tab value="log">{t("task.log")}</Tabs.Tab>
          <Tabs.Tab value="events">{t("task.events")}</Tabs.Tab>
          <Tabs.Tab value="yaml">{t("task.yaml")}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="terminal">
          {!running ? (
            <Empty text={t("env.shellOff")} />
          ) : mine || env.spec.shared ? (
            <Shells
              path={`${kind}/${encodeURIComponent(name)}/terminal`}
              name={title(env)}
              offer={t("shell.offerEnv")}
            />
          ) : (
            <Empty text={t("env.notYours", { owner: env.metadata.owner ?? "" })} />
          )}
        </Tabs.Panel>
        <Tabs.Panel value="ways">
          {mine || env.spec.shared ? (
            <WaysIn name={name} env={env} running={running} />
          ) : (
            <Empty text={t("env.notYours", { owner: env.metadata.owner ?? "" })} />
          )}
        </Tabs.Panel>
        <Tabs.Panel value="activity">
          {running ? <ActivityTable name={name} env={env} mine={mine} /> : <Empty text={t("env.activityOff")} />}
        </Tabs.Panel>
        <Tabs.Panel value="log">
          <Log name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="events">
          <Events name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="yaml">
          <Suspense fallback={<Loading />}>
            <Manifest kind="DevEnvironment" task={env}>
              {(text) => <Yaml text={text} />}
            </Manifest>
          </Suspense>
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}

/** What its command prints. */
function Log({ name }: { name: string }) {
  return <LogView {...useLog(name, kind)} prefix={false} />;
}

function Events({ name }: { name: string }) {
  return <EventList read={useWorkEvents(kind, name)} />;
}

function About({ name, env }: { name: string; env: Environment }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const now = useNow();
  const stays = useStays(name);
  const costs = useCosts(env.metadata.createdAt, env.metadata.project);
  const { startedAt, finishedAt, phase, zones, attempt } = env.status ?? {};
  const here = (stays.data ?? []).find((r) => r.state === "Running" || r.state === "Created");
  const facts: [string, React.ReactNode][] = [
    [t("env.type"), t(`env.type.${env.spec.type ?? "custom"}`)],
    [t("create.image"), env.spec.image || t("env.host")],
    [t("tasks.zone"), zones?.join(", ") || env.spec.zone || t("task.notYet")],
    [
      t("task.node"),
      here?.node ? (
        <AnchorLink key="node" to="/nodes/$name" params={{ name: here.node }} size="sm">
          {here.node}
        </AnchorLink>
      ) : (
        "—"
      ),
    ],
    [t("overview.devices"), here?.deviceIds?.length ? here.deviceIds.join(", ") : String(here?.devices ?? 0)],
    [t("env.home"), env.spec.storage || t("env.storageNone")],
    [t("work.cost"), <Cost key="cost" id={env.metadata.id ?? ""} costs={costs.data} />],
    [
      t("work.uptime"),
      phase === "Running" && !isSaving(env) && startedAt ? duration(now - Date.parse(startedAt), t) : "—",
    ],
    [t("task.created"), moment(env.metadata.createdAt, lang)],
  ];
  const clock = env.spec.schedule;
  if (clock) {
    const words = { start: clock.start || "—", stop: clock.stop || "—", zone: clock.timeZone || "UTC" };
    facts.push([t("env.schedule"), t("env.scheduleText", words)]);
  }
  const kept = env.status?.snapshot;
  if (kept?.version) facts.push([t("env.snapshotLast"), `${kept.dataset}@${kept.version} · ${moment(kept.at, lang)}`]);
  const moved = env.status?.moved;
  if (moved?.at) facts.push([t("env.moved"), `${said(moved.message, lang)} · ${moment(moved.at, lang)}`]);
  if (finishedAt && isOff(env)) facts.push([t("task.finished"), moment(finishedAt, lang)]);
  if ((attempt ?? 0) > 1) facts.push([t("env.starts"), String(attempt)]);
  if (isOff(env) && phase === "Stopped") facts.push([t("env.why"), said(env.status?.message, lang) || "—"]);
  return <Facts list={facts} />;
}

function Actions({ name, env }: { name: string; env: Environment }) {
  const { t } = useTranslation();
  const verb = useWorkVerb(kind, name);
  const remove = useDelete(kind, name);
  const navigate = useNavigate();
  const off = isOff(env);
  return (
    <Stack gap="xs" align="flex-end">
      <Group gap="xs">
        {off && !isMoving(env) && (env.status?.attempt ?? 0) > 0 && (
          <Button
            variant="default"
            title={t("env.snapshotHint")}
            onClick={() => verb.mutate("snapshot")}
            loading={verb.isPending}
            disabled={Boolean(env.metadata.deletedAt)}
          >
            {t("env.snapshot")}
          </Button>
        )}
        {!isMoving(env) && !isSaving(env) && !env.metadata.deletedAt && <ChangeEnvironment name={name} env={env} />}
        {!isMoving(env) && !isSaving(env) && (env.status?.attempt ?? 0) > 0 && !env.metadata.deletedAt && (
          <MoveHome name={name} env={env} />
        )}
        {off && !isMoving(env) ? (
          <Button
            onClick={() => verb.mutate("start")}
            loading={verb.isPending}
            disabled={Boolean(env.metadata.deletedAt)}
          >
            {t("env.start")}
          </Button>
        ) : isSaving(env) && !isMoving(env) ? (
          <Button variant="default" onClick={() => verb.mutate("stop")} loading={verb.isPending}>
            {t("env.snapshotLeave")}
          </Button>
        ) : (
          <Ask
            word={t("task.stop")}
            title={t("env.stopTitle", { name: title(env) })}
            confirm={t("env.stopConfirm")}
            color="blue"
            variant="default"
            disabled={(env.spec.stop && !isMoving(env)) || Boolean(env.metadata.deletedAt)}
            pending={verb.isPending}
            error={verb.error}
            act={(done) => verb.mutate("stop", { onSuccess: done })}
          >
            <Text size="sm">{t("env.stopText")}</Text>
          </Ask>
        )}
        <Ask
          word={t("work.delete")}
          title={t("env.deleteTitle", { name: title(env) })}
          confirm={t("env.deleteConfirm")}
          disabled={Boolean(env.metadata.deletedAt)}
          pending={remove.isPending}
          error={remove.error}
          act={(done) =>
            remove.mutate(undefined, {
              onSuccess: () => {
                done();
                void navigate({ to: "/environments" });
              },
            })
          }
        >
          <Text size="sm">{t("env.deleteText")}</Text>
          {!off && <Text size="sm">{t("env.deleteRunning")}</Text>}
        </Ask>
      </Group>
      {off && verb.error && <Failure error={verb.error} />}
    </Stack>
  );
}
