import {
  ActionIcon,
  Alert,
  Badge,
  Button,
  Checkbox,
  Group,
  Modal,
  NumberInput,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  Stepper,
  Table,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { millis } from "../apart";
import type { Zone } from "../api/client";
import { useSubmit, useZoneMatrix, useZones } from "../api/queries";
import { useMake } from "../api/works";
import { title } from "../format";
import { keepProject, usualProject } from "../project";
import {
  areAlike,
  boundsOf,
  deviceCounts,
  firstShare,
  type Mark,
  markOf,
  priceOf,
  type Share,
  serviceOf,
  taskOf,
  totals,
  type Wish,
} from "../spread";
import { money } from "../works";
import { useNow } from "./now";
import { Failure, View } from "./states";
import { type Project, WithProjects } from "./work-fields";

type Of = "training" | "service";
type Lack = "spread.noName" | "spread.noCommand" | "spread.noZone" | "spread.noNode";
type Label = "spread.name" | "spread.description" | "spread.image";

/** Opens the dialog that spreads a training or a service over zones. */
export function Spread({ of }: { of: Of }) {
  const { t } = useTranslation();
  const [open, dialog] = useDisclosure(false);
  const word = t(of === "training" ? "spread.train" : "spread.deploy");
  return (
    <>
      <Button variant="default" size="sm" onClick={dialog.open}>
        {word}
      </Button>
      <Modal
        opened={open}
        onClose={dialog.close}
        title={word}
        size="xl"
        closeButtonProps={{ "aria-label": t("task.cancel") }}
      >
        <WithProjects>{(projects) => <Steps of={of} projects={projects} />}</WithProjects>
      </Modal>
    </>
  );
}

const frameworks = [
  "pytorch-ddp",
  "pytorch-fsdp",
  "deepspeed",
  "megatron-lm",
  "horovod",
  "tensorflow",
  "paddle",
  "mxnet",
  "jax",
  "plain",
];
const strategies = ["ddp", "fsdp", "pipeline", "tensor", "hybrid"] as const;
const hues: Record<Mark, string> = {
  alone: "gray",
  near: "green",
  regional: "yellow",
  far: "orange",
  degraded: "red",
  unknown: "gray",
};

interface Form {
  project: string;
  name: string;
  description: string;
  framework: string;
  strategy: string;
  image: string;
  command: string;
}

function Steps({ of, projects }: { of: Of; projects: readonly Project[] }) {
  const { t } = useTranslation();
  const zones = useZones();
  const [step, setStep] = useState(0);
  const [shares, setShares] = useState<readonly Share[]>([]);
  const [balance, setBalance] = useState(false);
  const [form, setForm] = useState<Form>({
    project: usualProject(projects.map((p) => p.metadata.name ?? "")),
    name: "",
    description: "",
    framework: "pytorch-ddp",
    strategy: "",
    image: "",
    command: "",
  });
  const change = (patch: Partial<Form>) => setForm((old) => ({ ...old, ...patch }));
  const lacks: readonly (Lack | undefined)[] = [
    form.name.trim() === "" ? "spread.noName" : form.command.trim() === "" ? "spread.noCommand" : undefined,
    shares.length === 0 ? "spread.noZone" : undefined,
    shares.every((s) => s.nodes === 0) ? "spread.noNode" : undefined,
  ];
  const lack = lacks.slice(0, step + 1).find((l) => l !== undefined);
  return (
    <View read={zones}>
      {(d) => (
        <Stack>
          <Stepper active={step} onStepClick={(n) => n < step && setStep(n)} size="sm">
            <Stepper.Step label={t("spread.basic")}>
              <Basic of={of} form={form} change={change} projects={projects} />
            </Stepper.Step>
            <Stepper.Step label={t("spread.zones")}>
              <Choice zones={d.items} shares={shares} setShares={setShares} />
            </Stepper.Step>
            <Stepper.Step label={t("spread.shares")}>
              <Shares of={of} zones={d.items} shares={shares} setShares={setShares} />
              {of === "training" && (
                <Checkbox
                  mt="sm"
                  label={t("spread.balance")}
                  checked={balance}
                  onChange={(e) => setBalance(e.currentTarget.checked)}
                />
              )}
            </Stepper.Step>
            <Stepper.Step label={t("spread.start")}>
              <Shares of={of} zones={d.items} shares={shares} />
            </Stepper.Step>
          </Stepper>
          {step > 0 && <Sum zones={d.items} shares={shares} />}
          {lack && (
            <Text size="sm" c="dimmed" role="status">
              {t(lack)}
            </Text>
          )}
          <Group justify="space-between">
            <Button variant="default" disabled={step === 0} onClick={() => setStep(step - 1)}>
              {t("spread.back")}
            </Button>
            {step < 3 ? (
              <Button disabled={lack !== undefined} onClick={() => setStep(step + 1)}>
                {t("spread.next")}
              </Button>
            ) : (
              <Start of={of} form={form} shares={shares} balance={balance} />
            )}
          </Group>
        </Stack>
      )}
    </View>
  );
}

function Basic(props: { of: Of; form: Form; change: (patch: Partial<Form>) => void; projects: readonly Project[] }) {
  const { of, form, change, projects } = props;
  const { t } = useTranslation();
  const text = (key: "name" | "description" | "image", label: Label, maxLength: number) => (
    <TextInput
      label={t(label)}
      value={form[key]}
      maxLength={maxLength}
      onChange={(e) => change({ [key]: e.currentTarget.value })}
    />
  );
  return (
    <Stack gap="sm" mt="sm">
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        {text("name", "spread.name", 128)}
        <Select
          label={t("create.project")}
          data={projects.map((p) => ({ value: p.metadata.name ?? "", label: title(p) }))}
          value={form.project}
          onChange={(v) => change({ project: v ?? "" })}
          allowDeselect={false}
        />
      </SimpleGrid>
      {text("description", "spread.description", 4096)}
      {of === "training" && (
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <Select
            label={t("create.framework")}
            data={frameworks.map((f) => ({ value: f, label: f === "plain" ? t("create.plain") : f }))}
            value={form.framework}
            onChange={(v) => change({ framework: v ?? "plain", strategy: "" })}
            allowDeselect={false}
          />
          <Select
            label={t("spread.strategy")}
            placeholder={t("spread.strategyUsual")}
            data={strategies.map((s) => ({ value: s, label: t(`spread.strategy.${s}`) }))}
            value={form.strategy || null}
            onChange={(v) => change({ strategy: v ?? "" })}
            disabled={form.framework === "plain"}
            clearable
          />
        </SimpleGrid>
      )}
      {text("image", "spread.image", 512)}
      <Textarea
        label={t("spread.command")}
        value={form.command}
        onChange={(e) => change({ command: e.currentTarget.value })}
        placeholder={of === "training" ? "python train.py" : "python server.py --port $PORT"}
        autosize
        minRows={2}
        maxRows={8}
        spellCheck={false}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
      />
    </Stack>
  );
}

function MarkBadge({ mark, ms }: { mark: Mark; ms?: number }) {
  const { t } = useTranslation();
  return (
    <Badge color={hues[mark]} variant="light" tt="none">
      {ms !== undefined && `${millis(ms)} ms · `}
      {t(`spread.mark.${mark}`)}
    </Badge>
  );
}

function Choice(props: { zones: readonly Zone[]; shares: readonly Share[]; setShares: (s: readonly Share[]) => void }) {
  const { zones, shares, setShares } = props;
  const { t } = useTranslation();
  const matrix = useZoneMatrix();
  const chosen = shares.map((s) => s.zone);
  return (
    <Table.ScrollContainer minWidth={560}>
      <Table verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("spread.zone")}</Table.Th>
            <Table.Th>{t("spread.region")}</Table.Th>
            <Table.Th>{t("spread.ready")}</Table.Th>
            <Table.Th>{t("spread.together")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {zones.map((z) => {
            const name = z.metadata.name ?? "";
            const on = chosen.includes(name);
            return (
              <Table.Tr key={z.metadata.id}>
                <Table.Td>
                  <Checkbox
                    label={title(z)}
                    checked={on}
                    disabled={z.spec.outage}
                    onChange={() =>
                      setShares(on ? shares.filter((s) => s.zone !== name) : [...shares, firstShare(name)])
                    }
                  />
                </Table.Td>
                <Table.Td>{z.spec.region}</Table.Td>
                <Table.Td>{z.status?.ready ?? 0}</Table.Td>
                <Table.Td>
                  <MarkBadge {...markOf(z, chosen, matrix.data ?? [])} />
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** A row for each zone; what it has is only told where nothing sets it. */
function Shares(props: {
  of: Of;
  zones: readonly Zone[];
  shares: readonly Share[];
  setShares?: (s: readonly Share[]) => void;
}) {
  const { of, zones, shares, setShares } = props;
  const { t } = useTranslation();
  const now = useNow();
  const matrix = useZoneMatrix();
  const chosen = shares.map((s) => s.zone);
  const bounded = of === "training" && areAlike(shares);
  function change(zone: string, patch: Partial<Share>) {
    const { nodes: _, least: __, most: ___, ...each } = { nodes: 0, least: 0, most: 0, ...patch };
    // Replicas of a service are alike, wherever they stand.
    setShares?.(shares.map((s) => (s.zone === zone ? { ...s, ...patch } : of === "service" ? { ...s, ...each } : s)));
  }
  return (
    <Stack gap="xs" mt="sm">
      {shares.map((s) => {
        const zone = zones.find((z) => z.metadata.name === s.zone);
        if (!zone) return null;
        const most = zone.status?.ready ?? 0;
        const name = title(zone);
        return (
          <Group key={s.zone} gap="md" align="flex-end" role="group" aria-label={name}>
            <Stack gap={2} w={170}>
              <Text fw={500} size="sm">
                {name}
              </Text>
              <MarkBadge {...markOf(zone, chosen, matrix.data ?? [])} />
            </Stack>
            {setShares ? (
              <>
                <Stack gap={2}>
                  <Text size="xs">{t("spread.nodes")}</Text>
                  <Group gap={4}>
                    <ActionIcon
                      variant="default"
                      aria-label={t("spread.fewer", { zone: name })}
                      disabled={s.nodes === 0}
                      onClick={() => change(s.zone, { nodes: s.nodes - 1 })}
                    >
                      −
                    </ActionIcon>
                    <Text w={32} ta="center" role="status" aria-label={t("spread.nodesOf", { zone: name })}>
                      {s.nodes}
                    </Text>
                    <ActionIcon
                      variant="default"
                      aria-label={t("spread.more", { zone: name })}
                      disabled={s.nodes >= most}
                      onClick={() => change(s.zone, { nodes: s.nodes + 1 })}
                    >
                      +
                    </ActionIcon>
                  </Group>
                </Stack>
                <Stack gap={2}>
                  <Text size="xs">{t("spread.devices")}</Text>
                  <SegmentedControl
                    size="xs"
                    aria-label={t("spread.devicesOf", { zone: name })}
                    data={deviceCounts.map(String)}
                    value={String(s.devices)}
                    onChange={(v) => change(s.zone, { devices: Number(v) })}
                  />
                </Stack>
                <NumberInput
                  label={t("spread.cores")}
                  size="xs"
                  w={90}
                  min={1}
                  max={1024}
                  allowDecimal={false}
                  value={s.cores}
                  onChange={(v) => typeof v === "number" && change(s.zone, { cores: v })}
                />
                <NumberInput
                  label={t("spread.memory")}
                  size="xs"
                  w={100}
                  min={1}
                  max={65536}
                  allowDecimal={false}
                  value={s.memory}
                  onChange={(v) => typeof v === "number" && change(s.zone, { memory: v })}
                />
                {bounded && (
                  <>
                    <NumberInput
                      label={t("spread.least")}
                      aria-label={t("spread.leastOf", { zone: name })}
                      size="xs"
                      w={80}
                      min={0}
                      max={s.nodes}
                      allowDecimal={false}
                      value={boundsOf(s).least}
                      onChange={(v) => typeof v === "number" && change(s.zone, { least: v })}
                    />
                    <NumberInput
                      label={t("spread.most")}
                      aria-label={t("spread.mostOf", { zone: name })}
                      size="xs"
                      w={80}
                      min={s.nodes}
                      max={Math.max(most, s.nodes)}
                      allowDecimal={false}
                      value={boundsOf(s).most}
                      onChange={(v) => typeof v === "number" && change(s.zone, { most: v })}
                    />
                  </>
                )}
              </>
            ) : (
              <Text size="sm">
                {t("spread.share", { ...s })}
                {bounded && boundsOf(s).least < boundsOf(s).most && ` · ${t("spread.bounds", boundsOf(s))}`}
              </Text>
            )}
            <Text size="sm" c="dimmed">
              {t("spread.anHour", { price: money(priceOf(s, zone, now), zone.spec.price?.currency || "CNY") })}
            </Text>
          </Group>
        );
      })}
    </Stack>
  );
}

function Sum({ zones, shares }: { zones: readonly Zone[]; shares: readonly Share[] }) {
  const { t } = useTranslation();
  const now = useNow();
  const all = totals(shares, zones, now);
  return (
    <Alert variant="light" color="gray" role="status" aria-label={t("spread.total")}>
      <Text size="sm">
        {t("spread.sum", { nodes: all.nodes, devices: all.devices, cores: all.cores, memory: all.memory })}
        {all.prices.map((p) => ` · ${t("spread.anHour", { price: money(p.amount, p.currency) })}`).join("")}
      </Text>
    </Alert>
  );
}

function Start({ of, form, shares, balance }: { of: Of; form: Form; shares: readonly Share[]; balance: boolean }) {
  const { t } = useTranslation();
  const submit = useSubmit();
  const make = useMake("inference-services");
  const navigate = useNavigate();
  const error = submit.error ?? make.error;
  const wish: Wish = {
    name: form.name.trim(),
    description: form.description.trim(),
    framework: form.framework,
    strategy: form.strategy,
    image: form.image.trim(),
    command: ["sh", "-c", form.command],
    shares,
    balance,
  };
  function go() {
    if (of === "service") {
      make.mutate(
        { manifest: serviceOf(wish), project: form.project },
        {
          onSuccess: (made) => {
            keepProject(form.project);
            void navigate({ to: "/services/$name", params: { name: made.metadata.id ?? "" } });
          },
        },
      );
      return;
    }
    submit.mutate(
      { yaml: JSON.stringify(taskOf(wish, form.project)), dryRun: false }, // JSON is YAML
      {
        onSuccess: (made) => {
          keepProject(form.project);
          void navigate({ to: "/tasks/$name", params: { name: made.taskId } });
        },
      },
    );
  }
  return (
    <Stack align="flex-end" gap="xs">
      {error && <Failure error={error} title={t("create.notSubmitted")} />}
      <Button onClick={go} loading={submit.isPending || make.isPending}>
        {t(of === "training" ? "spread.launch" : "spread.launchService")}
      </Button>
    </Stack>
  );
}
