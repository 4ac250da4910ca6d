import { Group, NativeSelect, Progress, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Schemas } from "../api/client";
import { useServiceFigures } from "../api/works";
import type { Line } from "../curves";
import { Chart } from "./chart";
import { useLanguage } from "./now";
import { Empty, Panel, View } from "./states";

const spans = ["1h", "6h", "24h", "168h"] as const;

/** How a service answered: what it came to, its curves, by revision and by key. */
export default function Figures({ name }: { name: string }) {
  const { t } = useTranslation();
  const [since, setSince] = useState<string>("1h");
  const read = useServiceFigures(name, since);
  return (
    <Stack>
      <Group justify="flex-end">
        <NativeSelect
          size="xs"
          aria-label={t("svc.figuresSince")}
          data={spans.map((value) => ({ value, label: t(`svc.figures${value}`) }))}
          value={since}
          onChange={(e) => setSince(e.currentTarget.value)}
        />
      </Group>
      <View read={read} rows={6}>
        {(figures) => <Shown figures={figures} />}
      </View>
    </Stack>
  );
}

function Shown({ figures }: { figures: Schemas["Figures"] }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const { total, slo } = figures;
  const whole = (n: number) => n.toLocaleString(lang);
  const soon = (s: number | undefined) => (s ? `≤ ${s < 1 ? `${Math.round(s * 1000)} ms` : `${s} s`}` : "—");
  const facts: [string, string][] = [
    [t("svc.fig.requests"), whole(total.requests)],
    [t("svc.fig.good"), share(total)],
    [t("svc.fig.refused"), whole(total.refused)],
    [t("svc.fig.p50"), soon(total.p50)],
    [t("svc.fig.p95"), soon(total.p95)],
    [t("svc.fig.tokens"), whole(total.tokens)],
    [t("svc.fig.cost"), figures.costHour.toFixed(2)],
    [t("svc.fig.thousand"), figures.costPerThousand === undefined ? "—" : figures.costPerThousand.toPrecision(3)],
  ];
  return (
    <Stack>
      <SimpleGrid cols={{ base: 2, sm: 4 }}>
        {facts.map(([word, value]) => (
          <Stack gap={0} key={word}>
            <Text size="sm" c="dimmed">
              {word}
            </Text>
            <Text fw={600}>{value}</Text>
          </Stack>
        ))}
      </SimpleGrid>
      {slo && <Budget slo={slo} />}
      {(figures.points ?? []).length === 0 ? <Empty text={t("svc.figuresEmpty")} /> : <Charts figures={figures} />}
      {(figures.revisions ?? []).length > 0 && (
        <Panel title={t("svc.fig.revisions")}>
          <Rows
            head={t("svc.revision")}
            heads={[t("svc.fig.p50"), t("svc.fig.p95")]}
            list={(figures.revisions ?? []).map((r) => ({
              name: String(r.revision),
              ...r,
              more: [soon(r.p50), soon(r.p95)],
            }))}
          />
        </Panel>
      )}
      {(figures.keys ?? []).length > 0 && (
        <Panel title={t("svc.fig.keys")}>
          <Rows
            head={t("svc.fig.key")}
            heads={[]}
            list={(figures.keys ?? []).map((k) => ({ ...k, name: k.key || t("svc.fig.otherKeys"), more: [] }))}
          />
        </Panel>
      )}
    </Stack>
  );
}

type Counted = Pick<Schemas["Figure"], "requests" | "errors" | "refused" | "tokens">;

function share({ requests, refused, errors }: Counted): string {
  const asked = requests - refused;
  return asked > 0 ? `${((100 * (asked - errors)) / asked).toFixed(2)} %` : "—";
}

function Rows({
  head,
  heads,
  list,
}: {
  head: string;
  heads: string[];
  list: (Counted & { name: string; more: string[] })[];
}) {
  const { t } = useTranslation();
  const lang = useLanguage();
  return (
    <Table.ScrollContainer minWidth={520}>
      <Table verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            {[head, t("svc.fig.requests"), t("svc.fig.good"), t("svc.fig.refused"), t("svc.fig.tokens"), ...heads].map(
              (word) => (
                <Table.Th key={word}>{word}</Table.Th>
              ),
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {list.map((r) => (
            <Table.Tr key={r.name}>
              <Table.Td className="break">{r.name}</Table.Td>
              <Table.Td>{r.requests.toLocaleString(lang)}</Table.Td>
              <Table.Td>{share(r)}</Table.Td>
              <Table.Td>{r.refused.toLocaleString(lang)}</Table.Td>
              <Table.Td>{r.tokens.toLocaleString(lang)}</Table.Td>
              {r.more.map((text, i) => (
                <Table.Td key={heads[i]}>{text}</Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Budget({ slo }: { slo: Schemas["Budget"] }) {
  const { t } = useTranslation();
  const left = Math.round(slo.left * 10) / 10;
  const said = { availability: slo.availability, window: slo.window, bad: slo.bad, requests: slo.requests };
  return (
    <Panel title={t("svc.slo")} right={<Text fw={600}>{t("svc.sloLeft", { left })}</Text>}>
      <Stack gap="xs">
        <Progress
          value={Math.max(0, Math.min(100, slo.left))}
          color={slo.left <= 0 ? "red" : slo.left < 25 ? "orange" : "teal"}
          aria-label={t("svc.sloLeft", { left })}
        />
        <Text size="sm">
          {slo.measured === undefined
            ? t("svc.sloNone", said)
            : t("svc.sloText", { ...said, measured: slo.measured.toFixed(3) })}
        </Text>
        {slo.burn > 0 && <Text size="sm">{t("svc.sloBurn", { burn: Number(slo.burn.toPrecision(2)) })}</Text>}
      </Stack>
    </Panel>
  );
}

/** The moments of a span with what was there at each; nothing asked is 0 a second, and no latency. */
export function momentsOf(figures: Schemas["Figures"]) {
  const step = figures.step * 1000;
  const known = new Map((figures.points ?? []).map((p) => [Date.parse(p.at), p]));
  const moments: number[] = [];
  for (let at = Date.parse(figures.from); at <= Date.parse(figures.to); at += step) moments.push(at);
  return moments.map((at) => ({ at, point: known.get(at) }));
}

function Charts({ figures }: { figures: Schemas["Figures"] }) {
  const { t } = useTranslation();
  const moments = momentsOf(figures);
  type Point = NonNullable<(typeof moments)[number]["point"]>;
  const line = (label: string, none: number | null, of: (p: Point) => number | null): Line => {
    const y = moments.map(({ point }) => (point ? of(point) : none));
    return { label, x: moments.map((m) => m.at), y, raw: y, broken: 0 };
  };
  const charts: [string, Line[]][] = [
    [t("svc.fig.qps"), [line(t("svc.fig.requests"), 0, (p) => p.requests / figures.step)]],
    [
      t("svc.fig.errors"),
      [
        line(t("svc.fig.failed"), 0, (p) => (100 * p.errors) / p.requests),
        line(t("svc.fig.refused"), 0, (p) => (100 * p.refused) / p.requests),
      ],
    ],
    [
      t("svc.fig.latency"),
      [line(t("svc.fig.half"), null, (p) => p.p50 || null), line(t("svc.fig.most"), null, (p) => p.p95 || null)],
    ],
    [t("svc.fig.tps"), [line(t("svc.fig.tokens"), 0, (p) => p.tokens / figures.step)]],
  ];
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      {charts.map(([word, lines]) => (
        <Stack gap={4} key={word}>
          <Text size="sm" fw={600}>
            {word}
          </Text>
          <Chart name="" lines={lines} by="time" log={false} label={word} axis={t("svc.fig.time")} zoom={() => {}} />
        </Stack>
      ))}
    </SimpleGrid>
  );
}
