import { Group, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { DeviceState, NodePicture } from "../format";

const size = 7;
const step = 9;
/** Above this many nodes a square is a node, not a device. */
const manyNodes = 400;

function fill(state: DeviceState): string {
  return `var(--fermi-${state})`;
}

/** A node as a block of its devices, four to a row. */
export function NodeBlock({ picture }: { picture: NodePicture }) {
  const rows = Math.max(1, Math.ceil(picture.devices.length / 4));
  return (
    <svg width={4 * step} height={rows * step} aria-hidden="true">
      <title>{picture.node.metadata.name}</title>
      {picture.devices.map((state, i) => (
        <rect
          // biome-ignore lint/suspicious/noArrayIndexKey: a device is its index
          key={i}
          x={(i % 4) * step}
          y={Math.floor(i / 4) * step}
          width={size}
          height={size}
          rx={1.5}
          fill={fill(state)}
        />
      ))}
    </svg>
  );
}

/** A zone's devices, used and free, as a picture with a sentence for who cannot see it. */
export function DeviceMap({ zone, nodes }: { zone: string; nodes: readonly NodePicture[] }) {
  const { t } = useTranslation();
  const total = nodes.reduce((n, p) => n + p.devices.length, 0);
  const used = nodes.reduce((n, p) => n + p.used, 0);
  return (
    <div className="devices" role="img" aria-label={t("overview.mapLabel", { zone, total, used })}>
      {nodes.length > manyNodes
        ? nodes.map((p) => (
            <span
              key={p.node.metadata.id}
              style={{ width: size, height: size, background: fill(p.used > 0 ? "used" : (p.devices[0] ?? "free")) }}
            />
          ))
        : nodes.map((p) => <NodeBlock key={p.node.metadata.id} picture={p} />)}
    </div>
  );
}

export function Legend() {
  const { t } = useTranslation();
  const entries: [DeviceState, string][] = [
    ["used", t("overview.legendUsed")],
    ["free", t("overview.legendFree")],
    ["down", t("overview.legendDown")],
  ];
  return (
    <Group gap="md">
      {entries.map(([state, word]) => (
        <Group key={state} gap={6}>
          <span style={{ width: 10, height: 10, borderRadius: 2, background: fill(state) }} />
          <Text size="xs" c="dimmed">
            {word}
          </Text>
        </Group>
      ))}
    </Group>
  );
}
