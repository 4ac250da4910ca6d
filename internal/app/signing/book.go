package signing

import (
	"context"
	"net/http"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// notary proves a request if may lets its object be read or written; s3.Notary.
type notary interface {
	Sign(ctx context.Context, r *http.Request, now time.Time, may func(key string, write bool) error) error
}

// Book is what is asked about a replica.
type Book struct {
	// Notary has the credentials; nil: there is no bucket.
	Notary notary
	// Work finds work by its id.
	Work func(ctx context.Context, id string) (api.Work, error)
	// Current says nothing where a replica is of the attempt that runs now, GivenUp where its words still count.
	Current, GivenUp func(ctx context.Context, of link.Parts) error
	Clock            clock.Clock
}

// Sign is that of signature.Desk.
func (b Book) Sign(ctx context.Context, of link.Parts, r *http.Request) error {
	if b.Notary == nil {
		return fault.New(fault.Forbidden, "NoBucket", fault.T("This server keeps no checkpoints in a bucket.", "本服务未配置存放检查点的存储桶。"))
	}
	if err := b.Current(ctx, of); err != nil {
		return err
	}
	if err := b.GivenUp(ctx, of); err != nil {
		return err
	}
	work, err := b.Work(ctx, of.TaskID)
	if err != nil {
		return err
	}
	from := ""
	if t, ok := work.(*api.TrainingTask); ok && t.Status.From != nil {
		from = t.Status.From.TaskID
	}
	return b.Notary.Sign(ctx, r, b.Clock.Now(), func(key string, write bool) error {
		if owner, _, inside := strings.Cut(key, "/"); inside && (owner == of.TaskID || !write && from != "" && owner == from) {
			return nil
		}
		return fault.New(fault.Forbidden, "NotItsCheckpoint", fault.T("The checkpoint is another task's.", "该检查点属于另一个任务。"))
	})
}
