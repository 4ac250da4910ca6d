import { Badge, Button, Group, MultiSelect, Stack, Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schemas } from "../api/client";
import { useHosts, useInside } from "../api/queries";
import { bytes, quantity, title } from "../format";
import { View } from "./states";
import { Warnings } from "./warnings";

interface Choice {
  project: string;
  names: string[];
  framework: string;
  change: (names: string[]) => void;
  disabled: boolean;
}

/** Chooses running tasks to run inside, the first as master, and shows what they are together. */
export function Inside({ project, names, framework, change, disabled, error }: Choice & { error?: string }) {
  const { t } = useTranslation();
  const hosts = useHosts(project);
  const known = (hosts.data ?? []).map((h) => ({ value: h.metadata.name ?? "", label: title(h) }));
  const gone = names.filter((n) => !known.some((k) => k.value === n)).map((n) => ({ value: n, label: n }));
  return (
    <Stack gap="xs">
      <MultiSelect
        label={t("inside.label")}
        description={t("inside.hint")}
        data={[...known, ...gone]}
        value={names}
        onChange={change}
        error={error}
        disabled={disabled}
        nothingFoundMessage={t("inside.none")}
        searchable
      />
      {names.length > 0 && <Together project={project} names={names} framework={framework} change={change} />}
    </Stack>
  );
}

function Together({ project, names, framework, change }: Omit<Choice, "disabled">) {
  const read = useInside(project, names, framework);
  return (
    <View read={read} rows={3}>
      {(p) => <Ready preview={p} first={(name) => change([name, ...names.filter((n) => n !== name)])} />}
    </View>
  );
}

function Ready({ preview, first }: { preview: Schemas["ExistingPreview"]; first: (name: string) => void }) {
  const { t } = useTranslation();
  return (
    <Stack gap="xs">
      <Text size="sm" fw={500} role="status">
        {t("inside.sum", {
          count: preview.nodeCount,
          devices: devicesOf(preview.devices) || t("unit.cpuOnly"),
          cpu: preview.totalCpus,
          memory: bytes(quantity(preview.totalMemory)),
          zones: preview.zones.join(", "),
        })}
      </Text>
      <Warnings list={preview.warnings} />
      <Table.ScrollContainer minWidth={420}>
        <Table>
          <Table.Tbody>
            {preview.nodes.map((n, i) => (
              <Table.Tr key={n.id}>
                <Table.Td className="break">{n.name}</Table.Td>
                <Table.Td>
                  {n.node} · {n.zone}
                </Table.Td>
                <Table.Td>{devicesOf(n.devices) || t("unit.cpuOnly")}</Table.Td>
                <Table.Td>
                  <Group justify="flex-end">
                    {i === 0 ? (
                      <Badge variant="light" tt="none">
                        {t("inside.master")}
                      </Badge>
                    ) : (
                      <Button
                        size="compact-xs"
                        variant="default"
                        aria-label={t("inside.makeMasterOf", { name: n.name })}
                        onClick={() => first(n.id)}
                      >
                        {t("inside.makeMaster")}
                      </Button>
                    )}
                  </Group>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Stack>
  );
}

function devicesOf(by: Record<string, number> | undefined): string {
  return Object.entries(by ?? {})
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([type, n]) => `${n} × ${type}`)
    .join(", ");
}
