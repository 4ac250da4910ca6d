import i18next from "i18next";
import { initReactI18next } from "react-i18next";
import type { zh } from "./zh";

export type Language = "zh" | "en";

declare module "i18next" {
  interface CustomTypeOptions {
    resources: { translation: typeof zh };
    keySeparator: false;
    nsSeparator: false;
  }
}

const place = "fermi.language";

/** The language last chosen here; the browser's own where nobody chose. */
export function chosenLanguage(): Language {
  const kept = localStorage.getItem(place);
  if (kept === "zh" || kept === "en") return kept;
  return /^zh\b/i.test(navigator.language ?? "") ? "zh" : "en";
}

export function htmlLanguage(lang: Language): string {
  return lang === "zh" ? "zh-CN" : "en";
}

/** The words of a language; only those of the one that is spoken are loaded. */
async function wordsOf(lang: Language) {
  return lang === "zh" ? (await import("./zh")).zh : (await import("./en")).en;
}

/** Remembers the choice and changes every text on the page. */
export async function chooseLanguage(lang: Language): Promise<void> {
  localStorage.setItem(place, lang);
  i18next.addResourceBundle(lang, "translation", await wordsOf(lang));
  document.documentElement.lang = htmlLanguage(lang);
  await i18next.changeLanguage(lang);
}

/** Must be awaited before the first render. */
export async function startLanguages(): Promise<void> {
  const lang = chosenLanguage();
  document.documentElement.lang = htmlLanguage(lang);
  await i18next.use(initReactI18next).init({
    lng: lang,
    fallbackLng: false,
    supportedLngs: ["zh", "en"],
    keySeparator: false,
    nsSeparator: false,
    // React escapes what it shows.
    interpolation: { escapeValue: false },
    resources: { [lang]: { translation: await wordsOf(lang) } },
  });
}
