package signing

import (
	"context"
	"net/http"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// asks is a notary that would sign a write or a read of one object.
type asks struct {
	key   string
	write bool
}

func (a asks) Sign(_ context.Context, _ *http.Request, _ time.Time, may func(string, bool) error) error {
	return may(a.key, a.write)
}

// TestSign: a replica's task has its own folder, may read where it began, and that only while its attempt runs and its words count.
func TestSign(t *testing.T) {
	fine := func(context.Context, link.Parts) error { return nil }
	over := func(context.Context, link.Parts) error {
		return fault.New(fault.Forbidden, "AttemptOver", fault.T("Over.", "已结束。"))
	}
	for _, c := range []struct {
		what             string
		asks             notary
		current, givenUp func(context.Context, link.Parts) error
		want             bool
	}{
		{"write its own", asks{"task-1/packs/a", true}, fine, fine, true},
		{"read its own", asks{"task-1/packs/a", false}, fine, fine, true},
		{"list its own", asks{"task-1/", false}, fine, fine, true},
		{"read where it began", asks{"task-0/packs/a", false}, fine, fine, true},
		{"write where it began", asks{"task-0/packs/a", true}, fine, fine, false},
		{"read another's", asks{"task-2/packs/a", false}, fine, fine, false},
		{"a name that begins alike", asks{"task-11/packs/a", true}, fine, fine, false},
		{"no folder", asks{"task-1", true}, fine, fine, false},
		{"everything", asks{"", false}, fine, fine, false},
		{"after its attempt", asks{"task-1/packs/a", true}, over, fine, false},
		{"given up", asks{"task-1/packs/a", true}, fine, over, false},
		{"without a bucket", nil, fine, fine, false},
	} {
		b := Book{Notary: c.asks, Current: c.current, GivenUp: c.givenUp, Clock: clock.Real, Work: func(context.Context, string) (api.Work, error) {
			return &api.TrainingTask{Status: api.TrainingTaskStatus{From: &api.CheckpointOrigin{TaskID: "task-0"}}}, nil
		}}
		if err := b.Sign(t.Context(), link.Parts{TaskID: "task-1"}, nil); (err == nil) != c.want || err != nil && !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
