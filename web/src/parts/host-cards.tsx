// The environments to choose from, a card each.
import { Badge, Checkbox, Group, Select, SimpleGrid, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { duration } from "../format";
import { type Host, look, lookAll, type Order, words } from "../hosts";
import { useNow } from "./now";
import { StandingBadge } from "./standing";
import { Empty } from "./states";

interface Props {
  hosts: readonly Host[];
  chosen: readonly string[];
  toggle: (name: string) => void;
  disabled: boolean;
}

const orders: readonly Order[] = ["name", "devices", "uptime"];

export function HostCards({ hosts, chosen, toggle, disabled }: Props) {
  const { t } = useTranslation();
  const [by, setBy] = useState(lookAll);
  const shown = look(hosts, by);
  const choice = (label: string, value: string, of: (h: Host) => string, change: (v: string) => void) => (
    <Select
      size="xs"
      label={label}
      placeholder={t("inside.all")}
      data={words(hosts, of)}
      value={value || null}
      onChange={(v) => change(v ?? "")}
      clearable
    />
  );
  return (
    <Stack gap="xs">
      <SimpleGrid cols={{ base: 2, sm: 5 }} spacing="xs">
        <TextInput
          size="xs"
          label={t("inside.search")}
          value={by.text}
          maxLength={128}
          onChange={(e) => setBy({ ...by, text: e.currentTarget.value })}
        />
        {choice(
          t("inside.zone"),
          by.zone,
          (h) => h.zone,
          (zone) => setBy({ ...by, zone }),
        )}
        {choice(
          t("inside.deviceType"),
          by.deviceType,
          (h) => h.deviceType,
          (deviceType) => setBy({ ...by, deviceType }),
        )}
        {choice(
          t("inside.image"),
          by.image,
          (h) => h.image,
          (image) => setBy({ ...by, image }),
        )}
        <Select
          size="xs"
          label={t("inside.order")}
          data={orders.map((o) => ({ value: o, label: t(`inside.order.${o}`) }))}
          value={by.order}
          onChange={(v) => setBy({ ...by, order: orders.find((o) => o === v) ?? "name" })}
          allowDeselect={false}
        />
      </SimpleGrid>
      {shown.length === 0 && <Empty text={t(hosts.length === 0 ? "inside.none" : "inside.noMatch")} />}
      <Stack gap="xs" mah={420} style={{ overflowY: "auto" }} role="group" aria-label={t("inside.choose")}>
        {shown.map((h) => (
          <HostCard
            key={h.id}
            host={h}
            chosen={chosen.includes(h.name)}
            master={chosen.length > 1 && chosen[0] === h.name}
            toggle={() => toggle(h.name)}
            disabled={disabled}
          />
        ))}
      </Stack>
    </Stack>
  );
}

interface CardProps {
  host: Host;
  chosen: boolean;
  master: boolean;
  toggle: () => void;
  disabled: boolean;
}

/** One environment; all of it is the box to tick. */
function HostCard({ host, chosen, master, toggle, disabled }: CardProps) {
  const { t } = useTranslation();
  const now = useNow();
  const closed = host.why !== undefined && !chosen; // what is chosen can always be taken back
  return (
    <Checkbox.Card
      checked={chosen}
      onClick={toggle}
      disabled={disabled || closed}
      p="sm"
      radius="md"
      aria-label={host.name}
      data-testid={`host-${host.name}`}
      style={{
        flexShrink: 0,
        opacity: closed ? 0.65 : 1,
        borderColor: chosen ? "var(--mantine-primary-color-filled)" : undefined,
      }}
    >
      <Group wrap="nowrap" align="flex-start">
        <Checkbox.Indicator mt={2} />
        <Stack gap={4} style={{ minWidth: 0, flex: 1 }}>
          <Group gap={6}>
            <Text size="sm" fw={600} className="break">
              {host.name}
            </Text>
            <Badge size="sm" variant="outline" color="gray" tt="none">
              {t(host.type === "task" ? "inside.task" : `env.type.${host.type}`)}
            </Badge>
            <StandingBadge {...host.standing} />
            {master && (
              <Badge size="sm" color="orange" variant="light" tt="none">
                {t("inside.master")}
              </Badge>
            )}
          </Group>
          <Group gap="md">
            <Text size="xs" c="dimmed">
              📍 {host.zone || "—"}
            </Text>
            <Text size="xs" c="dimmed" className="break">
              💾 {host.image || t("inside.hostSystem")}
            </Text>
            <Text size="xs" c="dimmed">
              🎮 {host.devices > 0 ? `${host.devices}x ${host.deviceType || t("inside.anyDevice")}` : t("unit.cpuOnly")}
            </Text>
            <Text size="xs" c="dimmed">
              ⏱️ {Number.isNaN(host.since) ? "—" : duration(now - host.since, t)}
            </Text>
          </Group>
          {host.why && (
            <Text size="xs" c="red.9">
              {host.why.word === "inside.closed" ? t("inside.closed", { who: host.why.who }) : t("inside.notRunning")}
            </Text>
          )}
          {!host.why && host.busy !== "" && <Text size="xs">{t("inside.busy", { task: host.busy })}</Text>}
        </Stack>
      </Group>
    </Checkbox.Card>
  );
}
