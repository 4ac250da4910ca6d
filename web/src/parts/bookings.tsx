import {
  Badge,
  Button,
  Group,
  Modal,
  MultiSelect,
  NumberInput,
  Select,
  Stack,
  Table,
  Text,
  TextInput,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Zone } from "../api/client";
import { type Booking, useBook, useBookings, useUnbook } from "../api/many";
import { useProjects, useWhoami } from "../api/queries";
import { moment, title } from "../format";
import { useLanguage } from "./now";
import { Empty, Failure, Panel, View } from "./states";

const hues: Record<string, string> = { Upcoming: "yellow", Active: "blue", Over: "gray" };

/** Nodes that are a project's, or in maintenance, from one time to another. */
export function Bookings({ zones }: { zones: readonly Zone[] }) {
  const { t } = useTranslation();
  const list = useBookings();
  const role = useWhoami().data?.role;
  const operates = role === "admin" || role === "operator";
  return (
    <Panel title={t("bookings.title")} right={operates && <Book zones={zones} />}>
      <View read={list} empty={(d) => d.length === 0} whenEmpty={<Empty text={t("bookings.empty")} />}>
        {(d) => (
          <Table.ScrollContainer minWidth={640}>
            <Table verticalSpacing="xs">
              <Table.Tbody>
                {d.map((b) => (
                  <Row key={b.metadata.id} booking={b} operates={operates} />
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </View>
    </Panel>
  );
}

function Row({ booking, operates }: { booking: Booking; operates: boolean }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const end = useUnbook();
  const { from, to, projects, reason } = booking.spec;
  const { phase = "Upcoming", nodes } = booking.status ?? {};
  return (
    <Table.Tr>
      <Table.Td>
        <Text size="sm" fw={500} className="break">
          {booking.metadata.name}
        </Text>
        <Text size="xs" c="dimmed" className="break">
          {projects && projects.length > 0
            ? t("bookings.for", { projects: projects.join("、") })
            : t("bookings.maintenance")}
          {reason ? ` · ${reason}` : ""}
        </Text>
        {end.error && <Failure error={end.error} />}
      </Table.Td>
      <Table.Td>
        <Text size="sm">{`${moment(from, lang)} – ${moment(to, lang)}`}</Text>
        <Text size="xs" c="dimmed">
          {t("bookings.nodes", { count: nodes?.length ?? 0 })}
        </Text>
      </Table.Td>
      <Table.Td>
        <Group justify="flex-end" wrap="nowrap">
          <Badge color={hues[phase] ?? "gray"} variant="light" tt="none">
            {t(`bookings.phase.${phase}`)}
          </Badge>
          {operates && (
            <Button
              size="xs"
              variant="default"
              loading={end.isPending}
              onClick={() => end.mutate(booking.metadata.name ?? "")}
            >
              {t("bookings.end")}
            </Button>
          )}
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}

/** A booking of a whole zone, or of so many devices; nodes and labels are the command line's. */
function Book({ zones }: { zones: readonly Zone[] }) {
  const { t } = useTranslation();
  const [open, dialog] = useDisclosure(false);
  const book = useBook();
  const all = useProjects();
  const [form, setForm] = useState({ name: "", zone: "", from: "", to: "", reason: "", projects: [] as string[] });
  const [count, setCount] = useState<number | string>("");
  const [type, setType] = useState("");
  const change = (patch: Partial<typeof form>) => setForm((old) => ({ ...old, ...patch }));
  function send(event: FormEvent) {
    event.preventDefault();
    const { name, from, to, ...spec } = form;
    const at = (text: string) => (text === "" ? undefined : new Date(text).toISOString());
    const devices = count === "" ? undefined : { count: Number(count), type: type.trim() };
    book.mutate(
      { metadata: { name }, spec: { ...spec, from: at(from), to: at(to), devices } },
      { onSuccess: dialog.close },
    );
  }
  return (
    <>
      <Button size="xs" variant="default" onClick={dialog.open}>
        {t("bookings.make")}
      </Button>
      <Modal
        opened={open}
        onClose={dialog.close}
        title={t("bookings.make")}
        closeButtonProps={{ "aria-label": t("task.cancel") }}
      >
        <form onSubmit={send}>
          <Stack gap="sm">
            <TextInput
              label={t("bookings.name")}
              value={form.name}
              maxLength={63}
              onChange={(e) => change({ name: e.currentTarget.value })}
            />
            <Select
              label={t("spread.zone")}
              data={zones.map((z) => ({ value: z.metadata.name ?? "", label: title(z) }))}
              value={form.zone || null}
              onChange={(v) => change({ zone: v ?? "" })}
              clearable={count !== ""}
            />
            <Group grow align="flex-start">
              <NumberInput
                label={t("bookings.devices")}
                description={t("bookings.devicesHint")}
                value={count}
                min={1}
                max={100000}
                allowDecimal={false}
                onChange={setCount}
              />
              <TextInput
                label={t("create.deviceType")}
                description={t("bookings.typeHint")}
                value={type}
                maxLength={64}
                disabled={count === ""}
                onChange={(e) => setType(e.currentTarget.value)}
              />
            </Group>
            <TextInput
              type="datetime-local"
              label={t("bookings.from")}
              value={form.from}
              onChange={(e) => change({ from: e.currentTarget.value })}
            />
            <TextInput
              type="datetime-local"
              label={t("bookings.to")}
              value={form.to}
              onChange={(e) => change({ to: e.currentTarget.value })}
            />
            <MultiSelect
              label={t("bookings.projects")}
              description={t("bookings.projectsHint")}
              data={(all.data?.items ?? []).map((p) => ({ value: p.metadata.name ?? "", label: title(p) }))}
              value={form.projects}
              onChange={(projects) => change({ projects })}
            />
            <TextInput
              label={t("bookings.reason")}
              value={form.reason}
              maxLength={200}
              onChange={(e) => change({ reason: e.currentTarget.value })}
            />
            <Text size="xs" c="dimmed">
              {t("bookings.rule")}
            </Text>
            {book.error && <Failure error={book.error} />}
            <Button
              type="submit"
              loading={book.isPending}
              disabled={(form.zone === "" && count === "") || form.to === ""}
            >
              {t("bookings.make")}
            </Button>
          </Stack>
        </form>
      </Modal>
    </>
  );
}
