import { Badge } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Standing } from "../works";

/** How an environment or a service stands; a module of its own, for the page people land on. */
export function StandingBadge({ word, hue }: Standing) {
  const { t } = useTranslation();
  return (
    <Badge color={hue} variant="light" tt="none" style={{ flexShrink: 0 }}>
      {t(word as "env.state.Running")}
    </Badge>
  );
}
