package v1

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func chainOf(n int) ([]AuditEntry, AuditHead) {
	head := AuditHead{Anchor: AuditAnchor{Hash: NoAuditHash}, Hash: NoAuditHash}
	var out []AuditEntry
	for i := range n {
		e := AuditEntry{Seq: int64(2 * i), Time: time.Unix(int64(i), 7).UTC(), Actor: "ada", Verb: "create", Name: fmt.Sprint("n", i), Outcome: "ok"}
		e.Link(head.Number, head.Hash)
		head.Number, head.Hash = e.Number, e.Hash
		out = append(out, e)
	}
	return out, head
}

func verify(entries []AuditEntry, head AuditHead, gaps bool) (*AuditChain, error) {
	c := &AuditChain{Gaps: gaps}
	c.Begin(head.Anchor)
	for i := range entries {
		e := entries[i]
		data, _ := json.Marshal(e)
		e = AuditEntry{}
		if err := json.Unmarshal(data, &e); err != nil { // as an export has it
			return c, err
		}
		if err := c.Add(&e); err != nil {
			return c, err
		}
	}
	return c, c.End(head)
}

func TestAuditChainNamesTheFirstBadRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		harm func([]AuditEntry) []AuditEntry
		want string
	}{
		"whole":     {func(e []AuditEntry) []AuditEntry { return e }, ""},
		"changed":   {func(e []AuditEntry) []AuditEntry { e[4].Actor = "eve"; e[6].Actor = "eve"; return e }, "Record 5 (seq 8, 1970-01-01T00:00:04Z) is not what was written"},
		"removed":   {func(e []AuditEntry) []AuditEntry { return slices.Delete(e, 4, 5) }, "Record 5 is missing."},
		"cut out":   {func(e []AuditEntry) []AuditEntry { return slices.Delete(e, 4, 7) }, "Records 5 to 7 are missing."},
		"first":     {func(e []AuditEntry) []AuditEntry { return e[1:] }, "Record 1 is missing."},
		"end":       {func(e []AuditEntry) []AuditEntry { return e[:7] }, "Records 8 to 10 are missing."},
		"all":       {func(e []AuditEntry) []AuditEntry { return nil }, "Records 1 to 10 are missing."},
		"swapped":   {func(e []AuditEntry) []AuditEntry { e[4], e[5] = e[5], e[4]; return e }, "Record 5 is missing."},
		"repeated":  {func(e []AuditEntry) []AuditEntry { return slices.Insert(e, 5, e[4]) }, "Record 5 (seq 8, 1970-01-01T00:00:04Z) stands behind record 5"},
		"replaced":  {func(e []AuditEntry) []AuditEntry { e[4].Actor = "eve"; e[4].Link(4, e[3].Hash); return e }, "does not follow from record 5"},
		"unchained": {func(e []AuditEntry) []AuditEntry { return slices.Insert(e, 5, AuditEntry{Seq: 99, Actor: "eve"}) }, "carries no hash"},
		"new end":   {func(e []AuditEntry) []AuditEntry { e[9].Name = "x"; e[9].Link(9, e[8].Hash); return e }, "Record 10 is not the one that was written last."},
		"too many":  {func(e []AuditEntry) []AuditEntry { x := AuditEntry{}; x.Link(10, e[9].Hash); return append(e, x) }, "the head of the chain was set back"},
	} {
		entries, head := chainOf(10)
		_, err := verify(tt.harm(entries), head, false)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (fault.ReasonOf(err) != "BrokenChain" || !strings.Contains(fault.From(err).Message.EN, tt.want)):
			t.Errorf("%s: %v; want %q", name, err, tt.want)
		}
	}
	entries, head := chainOf(10)
	c, err := verify(slices.Concat(entries[2:4], entries[6:8]), head, true)
	if err != nil || c.Missing != 6 || c.Records != 4 {
		t.Errorf("a part: %+v, %v", c, err)
	}
	entries[6].Detail = "x"
	if _, err := verify(slices.Concat(entries[2:4], entries[6:8]), head, true); err == nil {
		t.Error("a part with a changed record")
	}
}

// TestAuditAnchor: what is older than the chain can't be changed, removed or added to afterwards.
func TestAuditAnchor(t *testing.T) {
	old := []AuditEntry{{Seq: 1, Actor: "a", Time: time.Unix(1, 0)}, {Seq: 2, Actor: "b\x00\xff", Time: time.Unix(2, 0)}}
	hash := NoAuditHash
	for i := range old {
		hash = RollAudit(hash, &old[i])
	}
	head := AuditHead{Anchor: AuditAnchor{Rows: 2, Hash: hash}, Hash: hash}
	if _, err := verify(old, head, false); err != nil {
		t.Error("no record yet:", err)
	}
	one := AuditEntry{Seq: 3, Actor: "c"}
	one.Link(0, hash)
	head.Number, head.Hash = one.Number, one.Hash
	if _, err := verify(append(slices.Clone(old), one), head, false); err != nil {
		t.Error(err)
	}
	changed := append(slices.Clone(old), one)
	changed[0].Actor = "eve"
	for name, harmed := range map[string][]AuditEntry{
		"changed": changed, "removed": {old[1], one}, "all removed": {one}, "added": {old[0], old[1], old[1], one},
	} {
		if _, err := verify(harmed, head, false); fault.ReasonOf(err) != "BrokenChain" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzAuditDigest(f *testing.F) {
	f.Add("actor", "name\x00", "\xffdetail", int64(5))
	f.Fuzz(func(t *testing.T, actor, name, detail string, at int64) {
		e := AuditEntry{Time: time.Unix(at%(1<<33), at&0xfffff).UTC(), Actor: actor, Name: name, Detail: detail}
		other := e
		other.Actor, other.Name = name, actor
		if AuditText(actor) != AuditText(name) && e.Digest() == other.Digest() {
			t.Fatal("two entries with one digest")
		}
		data, err := json.Marshal(e)
		if err != nil {
			t.Skip()
		}
		var back AuditEntry
		if err := json.Unmarshal(data, &back); err != nil || back.Digest() != e.Digest() {
			t.Fatalf("%v: %s", err, data)
		}
	})
}
