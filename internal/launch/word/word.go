package word

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fermi-cluster/fermi/internal/link"
)

// What ranks and their launcher say to each other over $FERMI_SOCKET: JSON lines, each one object
// with one key.

// MaxWord bounds one line.
const MaxWord = 64 << 10

// MaxSlots is how many slots a rank can have.
const MaxSlots = 8

// maxWhy bounds the last words of a rank that leaves, in bytes.
const maxWhy = 4 << 10

// maxMetrics bounds the numbers of one report.
const maxMetrics = 64

// Word is what a rank may say; exactly one is set.
type Word struct {
	Hello    *Hello    `json:"hello"`
	Progress *Progress `json:"progress"`
	Phase    *Phase    `json:"phase"`
	Saving   *Saving   `json:"saving"`
	Copied   *Copied   `json:"copied"`
	Saved    *Saved    `json:"saved"`
	Held     *Held     `json:"held"`
	Can      *Can      `json:"can"`
	Left     *Left     `json:"left"`
	Bye      *Bye      `json:"bye"`
	Want     *Want     `json:"want"`
}

type Hello struct {
	PID        int    `json:"pid"`
	Rank       int    `json:"rank"`
	Generation int64  `json:"generation"`
	Version    string `json:"version"`
}

// Stacks says that the rank prints its stacks on SIGUSR1: the Python SDK does, whose version is a
// plain number.
func (h *Hello) Stacks() bool {
	return h.Version != "" && h.Version[0] >= '0' && h.Version[0] <= '9'
}

type Progress struct {
	Step    int64              `json:"step"`
	T       float64            `json:"t"` // seconds of the step
	Metrics map[string]float64 `json:"metrics"`
}

type Phase struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
}

type Saving struct {
	Step int64 `json:"step"`
}

// Copied is a state that lies in a slot, without sums.
type Copied struct {
	Step  int64 `json:"step"`
	Slot  int   `json:"slot"`
	Bytes int64 `json:"bytes"`
}

type Saved struct {
	Step    int64   `json:"step"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

type Held struct {
	Steps []int64 `json:"steps"`
}

// Can says what the script is able to do from now on.
type Can struct {
	Leave bool `json:"leave"` // its generation, and join the next in the same process
}

type Left struct {
	Generation int64  `json:"generation"`
	Why        string `json:"why"` // the last words of the collective that failed; "": it was told to
}

type Bye struct {
	Code int `json:"code"`
}

var ErrWord = errors.New("not understood")

// Parse reads one line strictly.
func Parse(line []byte) (Word, error) {
	var w Word
	if len(line) > MaxWord {
		return w, fmt.Errorf("%w: over %d bytes", ErrWord, MaxWord)
	}
	if err := ParseLine(line, &w); err != nil {
		return w, err
	}
	if set := Count(w.Hello != nil, w.Progress != nil, w.Phase != nil, w.Saving != nil, w.Copied != nil, w.Saved != nil, w.Held != nil, w.Can != nil, w.Left != nil, w.Bye != nil, w.Want != nil); set != 1 {
		return w, fmt.Errorf("%w: %d keys", ErrWord, set)
	}
	return w, w.check()
}

// ParseLine reads exactly one value without unknown names.
func ParseLine(line []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrWord, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more than one value", ErrWord)
	}
	return nil
}

// Count is how many of these are true.
func Count(list ...bool) (n int) {
	for _, is := range list {
		if is {
			n++
		}
	}
	return n
}

func (w Word) check() error {
	bad := func(what string) error { return fmt.Errorf("%w: %s out of range", ErrWord, what) }
	switch {
	case w.Hello != nil && (w.Hello.PID < 0 || w.Hello.Rank < 0 || w.Hello.Generation < 0 || len(w.Hello.Version) > 64):
		return bad("hello")
	case w.Progress != nil && (w.Progress.Step < 0 || w.Progress.T < 0 || len(w.Progress.Metrics) > maxMetrics):
		return bad("progress")
	case w.Phase != nil && len(w.Phase.Name) > 64:
		return bad("phase")
	case w.Saving != nil && w.Saving.Step <= 0:
		return bad("saving")
	case w.Copied != nil && (w.Copied.Step <= 0 || w.Copied.Bytes < 0 || w.Copied.Slot < 0 || w.Copied.Slot >= MaxSlots):
		return bad("copied")
	case w.Saved != nil && (w.Saved.Step <= 0 || w.Saved.Bytes < 0 || w.Saved.Seconds < 0):
		return bad("saved")
	case w.Held != nil && (len(w.Held.Steps) > MaxWord/2 || slices.ContainsFunc(w.Held.Steps, func(s int64) bool { return s <= 0 })):
		return bad("held")
	case w.Left != nil && (w.Left.Generation < 0 || len(w.Left.Why) > maxWhy):
		return bad("left")
	case w.Want != nil && w.Want.bad():
		return bad("want")
	}
	return nil
}

// Answer is what a launcher says; exactly one is set.
type Answer struct {
	Welcome    *Welcome        `json:"welcome,omitempty"`
	Leave      *Leave          `json:"leave,omitempty"`
	Place      *Place          `json:"generation,omitempty"`
	Stop       *Stop           `json:"stop,omitempty"`
	Watermark  *Watermark      `json:"watermark,omitempty"`
	Pin        *Pin            `json:"pin,omitempty"`
	Roles      map[string]Role `json:"roles,omitempty"`
	Durable    *Durable        `json:"durable,omitempty"`
	Interval   *Interval       `json:"interval,omitempty"`
	Checkpoint *Checkpoint     `json:"checkpoint,omitempty"`
}

type Welcome struct {
	Generation int64   `json:"generation"`
	Restore    *int64  `json:"restore"` // null: from the beginning
	Offers     bool    `json:"offers,omitempty"`
	Pin        []int64 `json:"pin,omitempty"` // as of a word pin
	At         bool    `json:"at,omitempty"`  // where a rank is, is read from its file (rankset/at.go)
}

type Leave struct {
	Generation int64 `json:"generation"`
}

// Place is the next place of a rank that left.
type Place struct {
	Generation int64   `json:"generation"`
	Rank       int     `json:"rank"`
	World      int     `json:"world"`
	MasterAddr string  `json:"master_addr,omitempty"` // none where the user's own variables count
	MasterPort string  `json:"master_port,omitempty"`
	Group      string  `json:"group_rank,omitempty"` // likewise
	Groups     string  `json:"group_world_size,omitempty"`
	Restore    *int64  `json:"restore"` // null: from the beginning
	Pin        []int64 `json:"pin,omitempty"`
}

// Checkpoint asks for a save.
type Checkpoint struct{}

type Stop struct {
	Grace  float64 `json:"grace"` // seconds
	Reason string  `json:"reason"`
}

type Watermark struct {
	Step int64 `json:"step"`
	Held bool  `json:"held,omitempty"` // the answer to a later held
	Keep int64 `json:"keep,omitempty"` // a step whose slot is being read; absent: none
}

// Pin names steps whose slots stay, whatever the watermark is; it replaces the one before.
type Pin struct {
	Steps []int64 `json:"steps"`
}

func (a Answer) Line() []byte {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err) // numbers and texts only
	}
	return append(data, '\n')
}

// Interval is how often a rank is asked for a save.
type Interval struct {
	Steps int64 `json:"steps"` // 0: not any more
}

// Role is a role within `{"roles":{…}}`.
type Role struct {
	Ranks     int      `json:"ranks"`
	Replicas  int      `json:"replicas"`
	Addresses []string `json:"addresses"`
}

// A rank that saves with wait=True says which step it waits for. The leader makes it due at once, and the rank is
// answered when the tier has it, or when that comes to nothing.

// Want is a step that a rank waits for.
type Want struct {
	Step int64  `json:"step"`
	Tier string `json:"tier"` // "": the nearest
}

func (w *Want) bad() bool {
	return w.Step <= 0 || w.Tier != "" && w.Tier != link.TierLocal && w.Tier != link.TierShared
}

// Durable is the answer.
type Durable struct {
	Step int64  `json:"step"`
	Tier string `json:"tier"`          // as it was asked for
	Why  string `json:"why,omitempty"` // it is not; absent: it is
}
