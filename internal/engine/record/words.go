package record

import (
	"encoding/json"
	"strings"

	"github.com/fermi-cluster/fermi/internal/engine"
)

// LastWords are what a launcher leaves where nobody reads its folder: the message with which its container terminates.
type LastWords struct {
	Exit engine.Exit `json:"exit"`
	Done Done        `json:"done"`
}

// maxWords is what a kubelet keeps of a termination message, and maxText of one text in it.
const (
	maxWords = 4096
	maxText  = 700
)

// Pack is them as they are left; long texts lose their end.
func (w LastWords) Pack() ([]byte, error) {
	w.Exit.Message, w.Exit.Line, w.Done.Incomplete = cut(w.Exit.Message), cut(w.Exit.Line), cut(w.Done.Incomplete)
	raw, err := json.Marshal(w)
	if err == nil && len(raw) > maxWords {
		w.Exit.Message, w.Exit.Line = "", ""
		raw, err = json.Marshal(w)
	}
	return raw, err
}

// ParseLastWords reads them; false: these are none.
func ParseLastWords(text string) (w LastWords, ok bool) {
	return w, strings.HasPrefix(text, `{"exit":`) && json.Unmarshal([]byte(text), &w) == nil && w.Exit.Reason != ""
}

func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}
