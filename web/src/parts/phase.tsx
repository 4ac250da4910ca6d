import { Badge } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Phase } from "../api/queries";
import { isPhase } from "../search";

const hue: Record<Phase, string> = {
  Pending: "yellow",
  Initializing: "teal",
  Running: "blue",
  Recovering: "orange",
  Completed: "green",
  Failed: "red",
  Stopped: "gray",
};

export function PhaseBadge({ phase }: { phase: string | undefined }) {
  const { t } = useTranslation();
  const known = isPhase(phase) ? phase : "Pending";
  return (
    <Badge color={hue[known]} variant="light" tt="none" style={{ flexShrink: 0 }}>
      {t(`phase.${known}`)}
    </Badge>
  );
}
