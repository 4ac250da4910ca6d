import { useTranslation } from "react-i18next";
import type { Environment } from "../api/works";
import { cores } from "../hosts";

/** What a replica may use, in words. */
export function ResourceWish({ resources }: { resources: Environment["spec"]["resources"] }) {
  const { t } = useTranslation();
  const { accelerators, cpu, memory } = resources ?? {};
  const count = accelerators?.count ?? 0;
  const parts: string[] = [
    count > 0 ? t("unit.devices", { count, type: accelerators?.type || t("unit.anyDevice") }) : t("unit.cpuOnly"),
  ];
  if (cpu) parts.push(t("work.cores", { count: cores(cpu), n: cores(cpu) }));
  if (memory) parts.push(memory);
  return <>{parts.join(" · ")}</>;
}
