import { Input, NumberInput, SimpleGrid, Switch } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Form } from "../draft";
import type { Faults } from "../faults";

const weights = ["priceWeight", "carbonWeight", "latencyWeight"] as const;

/** What counts between zones that have room, and whether the task is moved for others. */
export function Where(props: {
  form: Form;
  change: (patch: Partial<Form>) => void;
  faults: Faults["at"];
  disabled: boolean;
}) {
  const { form, change, faults, disabled } = props;
  const { t } = useTranslation();
  return (
    <>
      <Input.Wrapper labelElement="div" label={t("create.prefer")} description={t("create.preferHint")}>
        <SimpleGrid cols={3} mt={4}>
          {weights.map((key) => (
            <NumberInput
              key={key}
              label={t(`create.${key}`)}
              placeholder="0"
              value={form[key] || ""}
              onChange={(v) => change({ [key]: typeof v === "number" ? v : 0 })}
              error={faults[key]}
              min={0}
              max={100}
              allowDecimal={false}
              disabled={disabled}
            />
          ))}
        </SimpleGrid>
      </Input.Wrapper>
      <Switch
        label={t("create.stay")}
        description={t("create.stayHint")}
        checked={form.stay}
        onChange={(e) => change({ stay: e.currentTarget.checked })}
        error={faults.stay}
        disabled={disabled}
      />
    </>
  );
}
