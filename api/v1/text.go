package v1

import "github.com/fermi-cluster/fermi/internal/fault"

// Text is one sentence in Chinese and English.
type Text = fault.Text

// T formats a Text; the same arguments fill both languages in the same order.
func T(en, zh string, args ...any) Text { return fault.T(en, zh, args...) }
