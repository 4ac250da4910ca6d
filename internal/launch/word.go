package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// What ranks and their launcher say to each other over $FERMI_SOCKET: JSON lines, each one object
// with one key.

// maxWord bounds one line.
const maxWord = 64 << 10

// maxSlots is how many slots a rank can have.
const maxSlots = 8

// maxWhy bounds the last words of a rank that leaves, in bytes.
const maxWhy = 4 << 10

// maxMetrics bounds the numbers of one report.
const maxMetrics = 64

// word is what a rank may say; exactly one is set.
type word struct {
	Hello    *wordHello    `json:"hello"`
	Progress *wordProgress `json:"progress"`
	Phase    *wordPhase    `json:"phase"`
	Saving   *wordSaving   `json:"saving"`
	Copied   *wordCopied   `json:"copied"`
	Saved    *wordSaved    `json:"saved"`
	Held     *wordHeld     `json:"held"`
	Can      *wordCan      `json:"can"`
	Left     *wordLeft     `json:"left"`
	Bye      *wordBye      `json:"bye"`
	Want     *wordWant     `json:"want"`
}

type wordHello struct {
	PID        int    `json:"pid"`
	Rank       int    `json:"rank"`
	Generation int64  `json:"generation"`
	Version    string `json:"version"`
}

// stacks says that the rank prints its stacks on SIGUSR1: the Python SDK does, whose version is a
// plain number.
func (h *wordHello) stacks() bool {
	return h.Version != "" && h.Version[0] >= '0' && h.Version[0] <= '9'
}

type wordProgress struct {
	Step    int64              `json:"step"`
	T       float64            `json:"t"` // seconds of the step
	Metrics map[string]float64 `json:"metrics"`
}

type wordPhase struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
}

type wordSaving struct {
	Step int64 `json:"step"`
}

// wordCopied is a state that lies in a slot, without sums.
type wordCopied struct {
	Step  int64 `json:"step"`
	Slot  int   `json:"slot"`
	Bytes int64 `json:"bytes"`
}

type wordSaved struct {
	Step    int64   `json:"step"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

type wordHeld struct {
	Steps []int64 `json:"steps"`
}

// wordCan says what the script is able to do from now on.
type wordCan struct {
	Leave bool `json:"leave"` // its generation, and join the next in the same process
}

type wordLeft struct {
	Generation int64  `json:"generation"`
	Why        string `json:"why"` // the last words of the collective that failed; "": it was told to
}

type wordBye struct {
	Code int `json:"code"`
}

var errWord = errors.New("not understood")

// parseWord reads one line strictly.
func parseWord(line []byte) (word, error) {
	var w word
	if len(line) > maxWord {
		return w, fmt.Errorf("%w: over %d bytes", errWord, maxWord)
	}
	if err := parseLine(line, &w); err != nil {
		return w, err
	}
	if set := count(w.Hello != nil, w.Progress != nil, w.Phase != nil, w.Saving != nil, w.Copied != nil, w.Saved != nil, w.Held != nil, w.Can != nil, w.Left != nil, w.Bye != nil, w.Want != nil); set != 1 {
		return w, fmt.Errorf("%w: %d keys", errWord, set)
	}
	return w, w.check()
}

// parseLine reads exactly one value without unknown names.
func parseLine(line []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", errWord, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more than one value", errWord)
	}
	return nil
}

// count is how many of these are true.
func count(list ...bool) (n int) {
	for _, is := range list {
		if is {
			n++
		}
	}
	return n
}

func (w word) check() error {
	bad := func(what string) error { return fmt.Errorf("%w: %s out of range", errWord, what) }
	switch {
	case w.Hello != nil && (w.Hello.PID < 0 || w.Hello.Rank < 0 || w.Hello.Generation < 0 || len(w.Hello.Version) > 64):
		return bad("hello")
	case w.Progress != nil && (w.Progress.Step < 0 || w.Progress.T < 0 || len(w.Progress.Metrics) > maxMetrics):
		return bad("progress")
	case w.Phase != nil && len(w.Phase.Name) > 64:
		return bad("phase")
	case w.Saving != nil && w.Saving.Step <= 0:
		return bad("saving")
	case w.Copied != nil && (w.Copied.Step <= 0 || w.Copied.Bytes < 0 || w.Copied.Slot < 0 || w.Copied.Slot >= maxSlots):
		return bad("copied")
	case w.Saved != nil && (w.Saved.Step <= 0 || w.Saved.Bytes < 0 || w.Saved.Seconds < 0):
		return bad("saved")
	case w.Held != nil && (len(w.Held.Steps) > maxWord/2 || slices.ContainsFunc(w.Held.Steps, func(s int64) bool { return s <= 0 })):
		return bad("held")
	case w.Left != nil && (w.Left.Generation < 0 || len(w.Left.Why) > maxWhy):
		return bad("left")
	case w.Want != nil && w.Want.bad():
		return bad("want")
	}
	return nil
}

// answer is what a launcher says; exactly one is set.
type answer struct {
	Welcome    *wordWelcome        `json:"welcome,omitempty"`
	Leave      *wordLeave          `json:"leave,omitempty"`
	Place      *wordPlace          `json:"generation,omitempty"`
	Stop       *wordStop           `json:"stop,omitempty"`
	Watermark  *wordWatermark      `json:"watermark,omitempty"`
	Pin        *wordPin            `json:"pin,omitempty"`
	Roles      map[string]wordRole `json:"roles,omitempty"`
	Durable    *wordDurable        `json:"durable,omitempty"`
	Interval   *wordInterval       `json:"interval,omitempty"`
	Checkpoint *wordCheckpoint     `json:"checkpoint,omitempty"`
}

type wordWelcome struct {
	Generation int64   `json:"generation"`
	Restore    *int64  `json:"restore"` // null: from the beginning
	Offers     bool    `json:"offers,omitempty"`
	Pin        []int64 `json:"pin,omitempty"` // as of a word pin
	At         bool    `json:"at,omitempty"`  // where a rank is, is read from its file (at.go)
}

type wordLeave struct {
	Generation int64 `json:"generation"`
}

// wordPlace is the next place of a rank that left.
type wordPlace struct {
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

// wordCheckpoint asks for a save.
type wordCheckpoint struct{}

type wordStop struct {
	Grace  float64 `json:"grace"` // seconds
	Reason string  `json:"reason"`
}

type wordWatermark struct {
	Step int64 `json:"step"`
	Held bool  `json:"held,omitempty"` // the answer to a later held
	Keep int64 `json:"keep,omitempty"` // a step whose slot is being read; absent: none
}

// wordPin names steps whose slots stay, whatever the watermark is; it replaces the one before.
type wordPin struct {
	Steps []int64 `json:"steps"`
}

func (a answer) line() []byte {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err) // numbers and texts only
	}
	return append(data, '\n')
}
