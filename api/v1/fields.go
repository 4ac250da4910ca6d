package v1

import (
	"strings"

	"github.com/fermi-cluster/fermi/api/v1/tree"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxFaults bounds an answer, and with it the work of finding out: whoever has more wrong than this
// starts over anyway.
const maxFaults = 100

// faults collects every refused field of one document.
type faults struct {
	list []fault.Field
	// extra are those beyond maxFaults that were noticed; with the first of them the search may end.
	extra int
	// reason is the common reason of all faults so far; mixed ones are BadManifest.
	reason  string
	borrows bool              // the task has the resources of others
	spec    *TrainingTaskSpec // of the task; nil: it is none
}

// add notes a fault; the arguments fill both languages in the same order.
func (f *faults) add(path, en, zh string, args ...any) {
	if len(f.list) == maxFaults { // not even the sentence is made
		f.extra++
		return
	}
	f.Put(path, "InvalidField", fault.T(en, zh, args...))
}

func (f *faults) Put(path, reason string, text fault.Text) {
	switch {
	case len(f.list) == 0:
		f.reason = reason
	case f.reason != reason:
		f.reason = "BadManifest"
	}
	if len(f.list) == maxFaults {
		f.extra++
		return
	}
	f.list = append(f.list, fault.Field{Path: path, Message: text})
}

// Enough says that there are more faults than an answer names: nobody needs to look for others. Loops
// over what a stranger sent ask it.
func (f *faults) Enough() bool { return f.extra > 0 }

// Found is how many were noticed so far.
func (f *faults) Found() int { return len(f.list) + f.extra }

// err is one error with all fields; nil when there are none.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	first := f.list[0]
	msg := fault.Text{EN: locate(first.Path, ": ") + first.Message.EN, ZH: locate(first.Path, "：") + first.Message.ZH}
	switch n := len(f.list); {
	case n == maxFaults:
		msg = fault.T("At least %[1]d fields are refused, and more may be wrong; the first is %[2]s", "至少 %[1]d 个字段有误，可能还有更多，第一个是 %[3]s", n, msg.EN, msg.ZH)
	case n > 1:
		msg = fault.T("%[1]d fields are refused; the first is %[2]s", "%[1]d 个字段有误，第一个是 %[3]s", n, msg.EN, msg.ZH)
	}
	return fault.New(fault.Invalid, f.reason, msg).WithFields(f.list...)
}

func locate(path, sep string) string {
	if path == "" {
		return ""
	}
	return path + sep
}

// How a user's text and the paths of fields are written.
func quote(s string) string          { return tree.Quote(s) }
func child(path, key string) string  { return tree.Child(path, key) }
func item(path string, i int) string { return tree.Item(path, i) }

// list joins words for a sentence.
func list[S ~string](words []S) string {
	parts := make([]string, len(words))
	for i, w := range words {
		parts[i] = string(w)
	}
	return strings.Join(parts, ", ")
}
