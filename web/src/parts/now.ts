import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Language } from "../i18n/setup";

/** The time, moving once a second; pages take it and hand it down. */
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

export function useLanguage(): Language {
  const { i18n } = useTranslation();
  return i18n.language === "en" ? "en" : "zh";
}
