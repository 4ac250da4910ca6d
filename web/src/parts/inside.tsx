// Chooses environments that run as the nodes of a training, the first as master, and shows what they are together.
import {
  Alert,
  Badge,
  Button,
  Card,
  Divider,
  Group,
  Input,
  NumberInput,
  Select,
  SimpleGrid,
  Stack,
  Text,
} from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Schemas } from "../api/client";
import { useInside, useWhoami } from "../api/queries";
import { useHosts } from "../api/works";
import { adviceFor, cores, distributed, gigabytes, isDistributed, toggled } from "../hosts";
import { HostCards } from "./host-cards";
import { View } from "./states";
import { Warnings } from "./warnings";

interface Choice {
  project: string;
  names: string[];
  framework: string;
  /** What is chosen; a framework, where that changes too. */
  change: (names: string[], framework?: string) => void;
  disabled: boolean;
}

export function Inside({ project, names, framework, change, disabled, error }: Choice & { error?: string }) {
  const { t } = useTranslation();
  const who = useWhoami();
  const hosts = useHosts(project, who.data?.user ?? "");
  const toggle = (name: string) => {
    const next = toggled(names, name);
    // Several nodes want something that brings them together.
    change(next, next.length > 1 && names.length < 2 && framework === "" ? "pytorch-ddp" : undefined);
  };
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Text size="sm" fw={500}>
          {t("inside.choose")}
        </Text>
        <Badge variant="light" tt="none" role="status">
          {t("inside.chosen", { n: names.length })}
        </Badge>
      </Group>
      {error && (
        <Input.Error data-fault role="alert">
          {error}
        </Input.Error>
      )}
      <View read={hosts} rows={4}>
        {(list) => (
          <>
            <HostCards hosts={list} chosen={names} toggle={toggle} disabled={disabled} />
            {names
              .filter((n) => !list.some((h) => h.name === n))
              .map((n) => (
                <Group key={n} justify="space-between">
                  <Text size="sm" className="break">
                    {t("inside.gone", { name: n })}
                  </Text>
                  <Button size="compact-xs" variant="default" onClick={() => toggle(n)}>
                    {t("inside.takeBack")}
                  </Button>
                </Group>
              ))}
          </>
        )}
      </View>
      {names.length > 1 && <Panel names={names} framework={framework} change={change} disabled={disabled} />}
      {names.length > 0 && <Together project={project} names={names} framework={framework} />}
    </Stack>
  );
}

/** How several nodes work together; from the second on. */
function Panel({ names, framework, change, disabled }: Omit<Choice, "project">) {
  const { t } = useTranslation();
  const [billions, setBillions] = useState<number | "">("");
  const chosen = framework || "plain";
  const known = isDistributed(chosen) ? chosen : undefined;
  return (
    <Card withBorder data-testid="distributed">
      <Stack gap="sm">
        <Text size="sm" fw={600}>
          🌐 {t("inside.panel")}
        </Text>
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <Select
            label={t("inside.master")}
            data={names}
            value={names[0] ?? null}
            onChange={(v) => v !== null && change([v, ...names.filter((n) => n !== v)])}
            error={names[0] ? undefined : t("inside.badMaster")}
            allowDeselect={false}
            disabled={disabled}
          />
          <Select
            label={t("inside.framework")}
            description={known && t(`inside.what.${known}`)}
            data={distributed.map((f) => ({ value: f, label: t(`inside.name.${f}`) }))}
            value={known ?? null}
            onChange={(v) => v !== null && change(names, v)}
            error={known ? undefined : t("inside.badFramework")}
            inputWrapperOrder={["label", "input", "description", "error"]}
            allowDeselect={false}
            disabled={disabled}
          />
        </SimpleGrid>
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <NumberInput
            label={t("inside.parameters")}
            description={t("inside.parametersHint")}
            value={billions}
            onChange={(v) => setBillions(typeof v === "number" ? v : "")}
            min={0}
            max={100_000}
            decimalScale={3}
            suffix=" B"
          />
          <Stack gap={2} justify="flex-end">
            {(["small", "middle", "large", "huge"] as const).map((size) => (
              <Text
                key={size}
                size="xs"
                fw={billions !== "" && adviceFor(billions) === size ? 700 : 400}
                c={billions === "" || adviceFor(billions) === size ? undefined : "dimmed"}
              >
                {t(`inside.advice.${size}`)}
              </Text>
            ))}
          </Stack>
        </SimpleGrid>
        <Alert color="orange" variant="light" p="xs">
          {t("inside.alert")}
        </Alert>
      </Stack>
    </Card>
  );
}

function Together({ project, names, framework }: Pick<Choice, "project" | "names" | "framework">) {
  const read = useInside(project, names, framework);
  return (
    <View read={read} rows={3}>
      {(p) => <Summary preview={p} />}
    </View>
  );
}

/** What they are together. */
function Summary({ preview: p }: { preview: Schemas["ExistingPreview"] }) {
  const { t } = useTranslation();
  const types = p.gpuTypes.join(", ");
  const rows: (readonly [string, string])[] = [
    ...(p.isDistributed ? [[t("inside.nodes"), t("inside.countN", { n: p.nodeCount })] as const] : []),
    [t("inside.gpus"), t("inside.countN", { n: p.totalGpus }) + (types && ` (${types})`)],
    [t("inside.cpus"), t("work.cores", { count: cores(p.totalCpus), n: cores(p.totalCpus) })],
    [t("inside.memory"), `${gigabytes(p.totalMemory)} GB`],
    ...(p.zones.length > 1 ? [[t("inside.zones"), t("inside.countN", { n: p.zones.length })] as const] : []),
  ];
  return (
    <Card withBorder data-testid="together">
      <Stack gap="xs">
        <Text size="sm" fw={600}>
          {t("inside.summary")}
        </Text>
        <Text size="sm">{p.isDistributed ? `🌐 ${t("inside.distributed")}` : `✓ ${t("inside.single")}`}</Text>
        <dl className="facts">
          {rows.map(([word, value]) => (
            <div key={word}>
              <dt>{word}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
        {p.isDistributed && (
          <Text size="sm">
            🌐{" "}
            {t("inside.using", {
              framework: isDistributed(p.framework) ? t(`inside.name.${p.framework}`) : p.framework,
            })}
          </Text>
        )}
        <Text size="sm" c="teal.9">
          ✅{" "}
          {p.startSeconds ? t("inside.quick", { n: Math.max(1, Math.ceil(p.startSeconds)) }) : t("inside.quickUnknown")}
        </Text>
        {p.zones.length > 1 && (
          <Alert color="yellow" variant="light" p="xs">
            ⚠️ {t("inside.far")}
          </Alert>
        )}
        <Warnings list={p.warnings} />
        <Divider />
        <Text size="sm">{t("inside.list")}</Text>
        {p.nodes.map((n, i) => (
          <Group key={n.id} justify="space-between" wrap="nowrap">
            <Text component="div" size="sm" className="break">
              {n.name}
              {i === 0 && p.isDistributed && (
                <Badge size="xs" ml={6} color="orange" variant="light" tt="none">
                  {t("inside.master")}
                </Badge>
              )}
            </Text>
            <Badge variant="outline" color="gray" tt="none">
              {devicesOf(n.devices) || t("unit.cpuOnly")}
            </Badge>
          </Group>
        ))}
      </Stack>
    </Card>
  );
}

function devicesOf(by: Record<string, number> | undefined): string {
  return Object.entries(by ?? {})
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([type, n]) => `${n}x${type}`)
    .join(", ");
}
