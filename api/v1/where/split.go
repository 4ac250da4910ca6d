package where

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/api/v1/quantity"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Span is how many replicas of a gang may stand in a zone: Least to Most. JSON: 4, "2..6", or "2.." for 2 or more.
type Span struct{ Least, Most int }

// Split is that for each zone of a gang.
type Split map[string]Span

// Exactly is a span of one number.
func Exactly(n int) Span { return Span{n, n} }

// Fixed says that there is one number only.
func (s Span) Fixed() bool { return s.Least == s.Most }

func (s Span) String() string {
	switch {
	case s.Fixed():
		return strconv.Itoa(s.Least)
	case s.Most >= MostReplicas:
		return fmt.Sprintf("%d..", s.Least)
	}
	return fmt.Sprintf("%d..%d", s.Least, s.Most)
}

// ParseSpan reads 4, 2..6, 2.. or ..6.
func ParseSpan(text string) (Span, error) {
	low, high, isRange := strings.Cut(text, "..")
	number := func(text string, absent int) (int, bool) {
		if text == "" && isRange {
			return absent, true
		}
		n, err := strconv.Atoi(text)
		return n, err == nil && n >= 0 && n <= MostReplicas && text[0] != '+'
	}
	least, ok1 := number(low, 0)
	most, ok2 := number(high, MostReplicas)
	if !isRange {
		most, ok2 = least, true
	}
	if !ok1 || !ok2 || most < least || most == 0 || low+high == "" {
		return Span{}, quantity.Wrong("%q is no number of replicas; write 4, or 2..6 for two to six, or 2.. for two or more; 1 to %d.", "%q 不是合法的副本数；请写 4、2..6（二至六个）或 2..（至少两个），范围 1 到 %d。", text, MostReplicas)
	}
	return Span{least, most}, nil
}

// MarshalJSON writes a number where there is one.
func (s Span) MarshalJSON() ([]byte, error) {
	if s.Fixed() {
		return json.Marshal(s.Least)
	}
	return json.Marshal(s.String())
}

// UnmarshalJSON reads a number or a text.
func (s *Span) UnmarshalJSON(data []byte) (err error) {
	text := string(data)
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	*s, err = ParseSpan(text)
	return err
}

// Fixed says that the user gave one number for each zone.
func (p Split) Fixed() bool {
	for _, s := range p {
		if !s.Fixed() {
			return false
		}
	}
	return true
}

// Sum is how many replicas the zones have together, at least and at most.
func (p Split) Sum() (out Span) {
	for _, s := range p {
		out.Least += s.Least
		out.Most += s.Most
	}
	return out
}

// maxZones bounds how many zones a split names.
const maxZones = 1000

// Check lists what can't be for a gang of so many replicas; closed are zones that its other rules keep it out of.
func (p Split) Check(at string, total int, closed func(zone string) bool) (out []fault.Field) {
	add := func(path, en, zh string, args ...any) {
		out = append(out, fault.Field{Path: path, Message: fault.T(en, zh, args...)})
	}
	if len(p) > maxZones {
		add(at, "There are %d zones; at most %d are allowed.", "可用区有 %d 个，最多允许 %d 个。", len(p), maxZones)
		return out
	}
	for _, zone := range slices.Sorted(maps.Keys(p)) {
		s, path := p[zone], at+"."+zone
		if s.Least < 0 || s.Most < max(s.Least, 1) || s.Most > MostReplicas {
			add(path, "%s is out of range: 1 to %d, or a span such as 2..6 within it, are allowed.", "%s 超出范围：允许 1 到 %d，或其中的范围，如 2..6。", s, MostReplicas)
		}
		if closed(zone) {
			add(path, "The rules beside it keep the task out of this zone.", "同处的规则禁止任务使用此可用区。")
		}
	}
	switch sum := p.Sum(); {
	case len(p) == 0 || len(out) > 0:
	case p.Fixed() && sum.Least != total:
		add(at, "The split has %d replicas, the task %d; they must be the same.", "split 共 %d 个副本，任务有 %d 个，两者应一致。", sum.Least, total)
	case sum.Least > total:
		add(at, "Its zones are to have %d replicas at least, and the task has %d; ask for less in some zone.", "各可用区至少共需 %d 个副本，而任务只有 %d 个；请减少某个可用区的下限。", sum.Least, total)
	case sum.Most < total:
		add(at, "Its zones may have %d replicas at most, and the task has %d; allow more in some zone.", "各可用区最多共 %d 个副本，而任务有 %d 个；请提高某个可用区的上限。", sum.Most, total)
	}
	return out
}
