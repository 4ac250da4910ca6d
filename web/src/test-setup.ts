import { configure } from "@testing-library/react";

// The tests read Chinese unless they choose otherwise; a browser of the tests would say English.
if (typeof localStorage !== "undefined") localStorage.setItem("fermi.language", "zh");
configure({ asyncUtilTimeout: 15_000 });
