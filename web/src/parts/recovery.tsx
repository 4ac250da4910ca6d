import { Badge, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";
import type { Task } from "../api/client";
import { moment } from "../format";
import type { Language } from "../i18n/setup";
import { type Bar, barOf, effective, lostSteps, meanOf, percent, phases, recoveryGoal, short } from "../recovery";
import { FigureView } from "./figure";
import { Empty } from "./states";

/** What failures cost the task: how much of its time, and each way back by its phases. */
export default function Recovery({ task, now, lang }: { task: Task; now: number; lang: Language }) {
  const { t } = useTranslation();
  const costs = task.status?.interruptions;
  if (!costs) return <Empty text={t("recovery.empty")} />;
  const mean = meanOf(costs);
  const bars = [...(costs.last ?? [])].reverse().map((r) => barOf(r, now));
  const part = effective(task, now);
  const lost = lostSteps(costs);
  return (
    <Stack gap="lg">
      <SimpleGrid cols={{ base: 2, sm: 4 }}>
        <FigureView
          word={t("recovery.effective")}
          value={Number.isFinite(part) ? percent(part) : t("recovery.unknown")}
        />
        <FigureView
          word={t("recovery.mean")}
          value={mean ? short(mean.whole, t) : t("recovery.unknown")}
          note={mean && t(mean.whole < recoveryGoal ? "recovery.within" : "recovery.beyond")}
          bad={mean && mean.whole >= recoveryGoal}
        />
        <FigureView
          word={t("recovery.lostSteps")}
          value={lost ? String(lost.steps) : t("recovery.unknown")}
          note={lost?.untold ? t("recovery.untold", { n: lost.untold }) : undefined}
        />
        <FigureView word={t("recovery.failures")} value={String(costs.count)} />
      </SimpleGrid>
      <Group gap="xs">
        {Object.entries(costs.causes ?? {})
          .sort(([a, n], [b, m]) => m - n || a.localeCompare(b))
          .map(([cause, n]) => (
            <Badge key={cause} variant="light" color="gray" tt="none">
              {cause} × {n}
            </Badge>
          ))}
      </Group>
      <Plot bars={mean && bars.length > 1 ? [mean, ...bars] : bars} lang={lang} />
      <Group gap="md">
        {phases.map((phase, i) => (
          <Group key={phase} gap={6}>
            <span className="swatch" style={{ background: paint(i) }} />
            <Text size="xs" c="dimmed">
              {t(`recovery.${phase}`)}
            </Text>
          </Group>
        ))}
      </Group>
    </Stack>
  );
}

function paint(i: number): string {
  return `var(--fermi-phase-${i})`;
}

/** What a recovery cost, as far as it is known. */
function way(bar: Bar, t: TFunction): string[] {
  const out: string[] = [];
  if (bar.lostSteps) out.push(t("recovery.again", { count: bar.lostSteps }));
  if (bar.swapped) out.push(t("recovery.swapped"));
  return out;
}

/** Where its state came from; the step where it is known. */
function fromOf(source: NonNullable<Bar["source"]>, step: number | undefined, t: TFunction): string {
  if (source === "beginning") return t("recovery.from.beginning");
  return step ? t(`recovery.from.${source}`, { step }) : t(`recovery.by.${source}`);
}

/** Each recovery as a bar of its phases, all on one scale, and the goal where it is on it. */
function Plot({ bars, lang }: { bars: Bar[]; lang: Language }) {
  const { t } = useTranslation();
  const widest = Math.max(...bars.map((b) => b.whole), 1);
  const goal = recoveryGoal <= widest ? (100 * recoveryGoal) / widest : undefined;
  return (
    <ul className="recoveries">
      {bars.map((bar) => {
        const name = bar.key === "mean" ? t("recovery.meanRow") : moment(bar.failedAt, lang);
        const who = [bar.rank !== undefined && t("recovery.rank", { n: bar.rank }), bar.node]
          .filter(Boolean)
          .join(" · ");
        const from = bar.source && fromOf(bar.source, bar.step, t);
        const words = bar.parts.map((p) => `${t(`recovery.${p.phase}`)} ${short(p.ms, t)}`).join(", ");
        return (
          <li key={bar.key}>
            <Text size="xs" c={bar.key === "mean" ? undefined : "dimmed"} fw={bar.key === "mean" ? 600 : undefined}>
              {name}
              {bar.cause && ` · ${bar.cause}`}
              {who && <br />}
              {who}
              {from && <br />}
              {from}
              {way(bar, t).map((w) => (
                <span key={w}>
                  <br />
                  {w}
                </span>
              ))}
            </Text>
            <div
              className="track"
              role="img"
              aria-label={`${name}: ${[who, words, from].filter(Boolean).join("; ")}`}
              title={words}
            >
              {bar.parts.map((p) => (
                <span
                  key={p.phase}
                  style={{ width: `${(100 * p.ms) / widest}%`, background: paint(phases.indexOf(p.phase)) }}
                />
              ))}
              {goal !== undefined && <i className="goal" style={{ left: `${goal}%` }} />}
            </div>
            <Text size="xs" ta="right">
              {short(bar.whole, t)}
              {bar.open && ` · ${t("recovery.open")}`}
            </Text>
          </li>
        );
      })}
    </ul>
  );
}
