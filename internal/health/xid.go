package health

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"

	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// xidTable is NVIDIA's published catalogue, in our words: what each code means, and what it asks for.
//
//go:embed xid.json
var xidTable []byte

// Xid is a row of it.
type Xid struct {
	Code   int               `json:"code"`
	Action card.DeviceAction `json:"action"`
	// Worse are words of the line that make the action Then; Worst those that make it a restart.
	Worse string            `json:"worse,omitempty"`
	Then  card.DeviceAction `json:"then,omitempty"`
	Worst string            `json:"worst,omitempty"`
	Text  fault.Text        `json:"text"`

	worse, worst *regexp.Regexp
}

// Xids is the table in the order of its codes; it is read when it is first asked for.
var Xids = sync.OnceValue(func() []Xid { return mustRead(xidTable) })

var byCode = sync.OnceValue(func() map[int]*Xid {
	out, list := map[int]*Xid{}, Xids()
	for i := range list {
		out[list[i].Code] = &list[i]
	}
	return out
})

func mustRead(raw []byte) []Xid {
	list, err := readXids(raw)
	if err != nil {
		panic(err)
	}
	return list
}

// readXids is strict: a word that it does not know is a mistake of ours.
func readXids(raw []byte) ([]Xid, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var list []Xid
	if err := d.Decode(&list); err != nil {
		return nil, err
	}
	for i := range list {
		x := &list[i]
		if i > 0 && list[i-1].Code >= x.Code || x.Text.EN == "" || x.Text.ZH == "" {
			return nil, fmt.Errorf("xid %d: out of order, or without words", x.Code)
		}
		for _, words := range []struct {
			text string
			into **regexp.Regexp
		}{{x.Worse, &x.worse}, {x.Worst, &x.worst}} {
			if words.text == "" {
				continue
			}
			var err error
			if *words.into, err = regexp.Compile(words.text); err != nil {
				return nil, fmt.Errorf("xid %d: %w", x.Code, err)
			}
		}
	}
	return list, nil
}

// XidAction is what a line with this code asks for. A code that the table does not have is shown.
func XidAction(code int, line string) card.DeviceAction {
	x := byCode()[code]
	switch {
	case x == nil:
		return card.ActionWatch
	case x.worst != nil && x.worst.MatchString(afterTo(line)):
		return card.ActionRestart
	case x.worse != nil && x.worse.MatchString(afterTo(line)):
		return x.Then
	}
	return x.Action
}

var changedTo = pattern.New(`changed from .* to (.*)$`)

// afterTo is what a change led to, where the line tells of one: what it was before does not count.
func afterTo(line string) string {
	if m := changedTo.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return line
}

func xidText(code int) fault.Text {
	if x := byCode()[code]; x != nil {
		return fault.Text{EN: fmt.Sprintf("Xid %d: %s", code, x.Text.EN), ZH: fmt.Sprintf("Xid %d：%s", code, x.Text.ZH)}
	}
	return fault.T("Xid %d: a fault that the table does not have", "Xid %d：故障表中没有该代码", code)
}
