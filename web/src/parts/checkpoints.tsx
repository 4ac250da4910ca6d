import { Badge, Button, Group, Modal, Stack, Table, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useCheckpoints, usePin, useRestore, useVerify } from "../api/checkpoints";
import type { Schemas, Task } from "../api/client";
import { useWhoami } from "../api/queries";
import { abandoned, type Checkpoint, committed, marksOf, metricsOf, pinned, shared, verdict } from "../checkpoints";
import { bytes, moment, over, quantity, said } from "../format";
import type { Language } from "../i18n/setup";
import { ModelOf } from "./checkpoint-model";
import { ButtonLink } from "./link";
import { Empty, Failure, View } from "./states";
import { EndsToo, isInUse } from "./stop";
import { wordOf } from "./task-row";

/** What of the task outlives its processes: where it lies, and what can be done with it. */
export default function Checkpoints({ name, task, lang }: { name: string; task: Task; lang: Language }) {
  const { t } = useTranslation();
  const read = useCheckpoints(name);
  const role = useWhoami().data?.role ?? "";
  const pin = usePin(name);
  const verify = useVerify(name);
  const [chosen, choose] = useState<Checkpoint>();
  const [served, serve] = useState<Checkpoint>();
  return (
    <Stack gap="md">
      <Intervals list={task.status?.intervals ?? []} lang={lang} />
      <View read={read} empty={(d) => d.length === 0} whenEmpty={<Empty text={t("checkpoints.empty")} />}>
        {(list) => (
          <Stack gap="md">
            <Plot list={list} task={task} />
            {pin.error && <Failure error={pin.error} />}
            {verify.error && <Failure error={verify.error} />}
            <Rows
              list={list}
              task={task}
              lang={lang}
              may={role === "admin" || role === "member"}
              onPin={(c) => pin.mutate({ step: c.step, unpin: pinned(c) })}
              onVerify={(c) => verify.mutate({ step: c.step })}
              onRestore={choose}
              onModel={serve}
            />
            {served && <ModelOf task={task} chosen={served} close={() => serve(undefined)} />}
            {chosen && <Restore name={name} task={task} chosen={chosen} close={() => choose(undefined)} />}
          </Stack>
        )}
      </View>
    </Stack>
  );
}

/** How often a task that tunes that itself saves, and why. */
export function Intervals({ list, lang }: { list: Schemas["SaveInterval"][]; lang: Language }) {
  const { t } = useTranslation();
  return list.map((i) => (
    <div key={i.tier}>
      <Text size="sm" fw={500}>
        {t(`checkpoints.saves.${i.tier}`)}
      </Text>
      <Text size="sm">{said(i.why, lang)}</Text>
    </div>
  ));
}

/** Each checkpoint at its step, a row a tier. */
function Plot({ list, task }: { list: Checkpoint[]; task: Task }) {
  const { t } = useTranslation();
  const rows = marksOf(list, task);
  const steps = list.map((c) => c.step);
  const ends = [Math.min(...steps), Math.max(...steps)];
  return (
    <div className="steps">
      {rows.map(({ tier, marks }) => (
        <div key={tier} className="row">
          <Text size="sm">{t(`checkpoints.${tier}`)}</Text>
          <div
            className="line"
            role="img"
            aria-label={t("checkpoints.line", {
              tier: t(`checkpoints.${tier}`),
              steps: marks.map((m) => m.step).join(", "),
            })}
          >
            {marks.map((m) => (
              <span
                key={m.key}
                title={String(m.step)}
                className={`${m.pinned ? "pinned" : ""} ${m.abandoned ? "abandoned" : ""}`}
                style={{ left: `${m.at}%` }}
              />
            ))}
          </div>
        </div>
      ))}
      <div className="row">
        <Text size="xs" c="dimmed">
          {t("checkpoints.step")}
        </Text>
        <Group justify={ends[0] === ends[1] ? "center" : "space-between"} className="ends">
          {[...new Set(ends)].map((n) => (
            <Text key={n} size="xs" c="dimmed">
              {n}
            </Text>
          ))}
        </Group>
      </div>
    </div>
  );
}

interface RowsProps {
  list: Checkpoint[];
  task: Task;
  lang: Language;
  may: boolean;
  onPin: (c: Checkpoint) => void;
  onVerify: (c: Checkpoint) => void;
  onRestore: (c: Checkpoint) => void;
  onModel: (c: Checkpoint) => void;
}

function Rows({ list, task, lang, may, onPin, onVerify, onRestore, onModel }: RowsProps) {
  const { t } = useTranslation();
  const scored = list.some((c) => metricsOf(c) !== "");
  return (
    <Table.ScrollContainer minWidth={640}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th ta="right">{t("checkpoints.step")}</Table.Th>
            <Table.Th ta="right">{t("checkpoints.ranks")}</Table.Th>
            <Table.Th ta="right">{t("checkpoints.size")}</Table.Th>
            <Table.Th ta="right">{t("checkpoints.new")}</Table.Th>
            <Table.Th>{t("checkpoints.tiers")}</Table.Th>
            <Table.Th>{t("checkpoints.committed")}</Table.Th>
            <Table.Th>{t("checkpoints.verified")}</Table.Th>
            {scored && <Table.Th>{t("checkpoints.metrics")}</Table.Th>}
            {may && <Table.Th>{t("checkpoints.actions")}</Table.Th>}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {[...list].reverse().map((c) => (
            <Table.Tr key={c.name}>
              <Table.Td ta="right">{c.step}</Table.Td>
              <Table.Td ta="right">{c.ranks}</Table.Td>
              <Table.Td ta="right">{bytes(quantity(c.size))}</Table.Td>
              <Table.Td ta="right">{bytes(Math.max(...(c.tiers ?? []).map((x) => quantity(x.new))))}</Table.Td>
              <Table.Td>
                <Group gap={6}>
                  {(c.tiers ?? []).map((x) => t(`checkpoints.${x.tier}`)).join(", ")}
                  {pinned(c) && <Mark text={t("checkpoints.pinned")} color="blue" />}
                  {abandoned(c, task) && <Mark text={t("checkpoints.abandoned")} color="gray" />}
                </Group>
              </Table.Td>
              <Table.Td>{moment(committed(c), lang)}</Table.Td>
              <Table.Td>
                <Verified c={c} lang={lang} />
              </Table.Td>
              {scored && <Table.Td>{metricsOf(c)}</Table.Td>}
              {may && (
                <Table.Td>
                  <Group gap={6} wrap="nowrap">
                    <Button
                      size="compact-xs"
                      variant="default"
                      aria-label={t("checkpoints.restoreLabel", { step: c.step })}
                      onClick={() => onRestore(c)}
                    >
                      {t("checkpoints.restore")}
                    </Button>
                    <Button
                      size="compact-xs"
                      variant="default"
                      aria-label={t(pinned(c) ? "checkpoints.unpinLabel" : "checkpoints.pinLabel", { step: c.step })}
                      onClick={() => onPin(c)}
                    >
                      {t(pinned(c) ? "checkpoints.unpin" : "checkpoints.pin")}
                    </Button>
                    {shared(c) && (
                      <Button
                        size="compact-xs"
                        variant="default"
                        disabled={verdict(c).verifying}
                        aria-label={t("checkpoints.verifyLabel", { step: c.step })}
                        onClick={() => onVerify(c)}
                      >
                        {t("checkpoints.verify")}
                      </Button>
                    )}
                    {shared(c) && !shared(c)?.damage && (
                      <Button
                        size="compact-xs"
                        variant="default"
                        aria-label={t("checkpoints.modelLabel", { step: c.step })}
                        onClick={() => onModel(c)}
                      >
                        {t("checkpoints.model")}
                      </Button>
                    )}
                    {shared(c) && !shared(c)?.damage && (
                      <ButtonLink
                        to="/create"
                        search={{ from: wordOf(task), step: c.step }}
                        size="compact-xs"
                        variant="default"
                        aria-label={t("checkpoints.beginLabel", { step: c.step })}
                      >
                        {t("checkpoints.begin")}
                      </ButtonLink>
                    )}
                  </Group>
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** What is known of its bytes since they were written. */
function Verified({ c, lang }: { c: Checkpoint; lang: Language }) {
  const { t } = useTranslation();
  const { damage, verifying, at } = verdict(c);
  if (verifying) return <>{t("checkpoints.verifying")}</>;
  if (!damage) return <>{at === "" ? t("checkpoints.unverified") : moment(at, lang)}</>;
  return (
    <>
      <Mark text={t("checkpoints.damaged")} color="red" />
      <Text size="xs">{said(damage, lang)}</Text>
    </>
  );
}

function Mark({ text, color }: { text: string; color: string }) {
  return (
    <Badge size="sm" variant="light" color={color} tt="none">
      {text}
    </Badge>
  );
}

/** Asks before what runs is ended. */
function Restore({ name, task, chosen, close }: { name: string; task: Task; chosen: Checkpoint; close: () => void }) {
  const { t } = useTranslation();
  const restore = useRestore(name);
  const ended = over(task);
  const inside = task.status?.inUseBy;
  return (
    <Modal
      opened
      onClose={close}
      title={t("checkpoints.restoreTitle", { step: chosen.step })}
      centered
      closeButtonProps={{ "aria-label": t("task.cancel") }}
    >
      <Stack>
        <Text size="sm">{t(ended ? "checkpoints.restoreEnded" : "checkpoints.restoreRunning")}</Text>
        <Text size="sm">{t("checkpoints.restoreText")}</Text>
        <EndsToo inside={inside} />
        {restore.error && !(inside && isInUse(restore.error)) && <Failure error={restore.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>
            {t("task.cancel")}
          </Button>
          <Button
            color={ended ? undefined : "red.9"}
            loading={restore.isPending}
            onClick={() =>
              restore.mutate({ step: chosen.step, stop: !ended, force: inside !== undefined }, { onSuccess: close })
            }
          >
            {t("checkpoints.restoreConfirm")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
