package setup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/chore"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/link"
)

// source is who gives what a replica needs; link.Client does. What it can never give is link.Permanent.
type source interface {
	// FetchArchive writes the archive of this digest.
	FetchArchive(ctx context.Context, digest string, w io.Writer) error
	// FetchAsset writes the list of a version of a dataset or model (count 0), or a run of its chunks one after the other.
	FetchAsset(ctx context.Context, digest string, first, count int, w io.Writer) error
	// FetchSecrets gives the values of all that the replica names.
	FetchSecrets(ctx context.Context) (map[api.SecretRef]string, error)
}

// notes is the user's log.
type notes interface {
	// Notice is a line of our own in it.
	Notice(format string, args ...any)
	// Hide makes these texts unseen in every line from now on.
	Hide(values []string)
}

// Supplies bring what a replica's processes need before they start: secrets, image, code. One goroutine brings them; what they are is read
// when it is through.
type Supplies struct {
	at       *Enclosure
	from     source
	notes    notes
	node     record.Link // what it says about images
	secrets  map[api.SecretRef]string
	creds    credentials
	gitTries int
	// Brings hears how far a dataset or model is; nil: it is there. It may be absent.
	Brings func(*engine.Bringing)
	clock  clock.Clock
	log    *slog.Logger
}

// NewSupplies brings nothing yet; node says where images are kept, and by whom.
func NewSupplies(at *Enclosure, from source, to notes, node record.Link, c clock.Clock, log *slog.Logger) *Supplies {
	return &Supplies{at: at, from: from, notes: to, node: node, clock: c, log: log}
}

// BringImage has the image on this node, where the replica names one.
func (s *Supplies) BringImage(ctx context.Context) error {
	if s.at.Home.Replica.Image == "" {
		return s.heed(nil)
	}
	return s.bringImage(ctx)
}

// BringCode puts the code into place, and tries until it is there or can't be.
func (s *Supplies) BringCode(ctx context.Context) error {
	if c := s.at.Home.Replica.Code; c == nil || c.Folder != "" {
		return nil
	}
	code := filepath.Join(s.at.Home.Dir, record.DirCode)
	return asStartFault(again(ctx, s, "code not fetched yet", func() error { return s.bring(ctx, s.at.Home.Replica.Code, code) }))
}

// bring puts the code into place, from the server or from Git.
func (s *Supplies) bring(ctx context.Context, code *api.Code, place string) error {
	if code.Git != nil {
		return s.clone(ctx, code.Git, place)
	}
	return s.fetch(ctx, code.Archive, place)
}

// gitPatience is how long one try to clone may take.
const gitPatience = 30 * time.Minute

// maxGitTries is after how many failures a repository counts as out of reach.
const maxGitTries = 6

// clone brings a revision to its place, in a process that has become the tenant. Nothing starts before it is whole.
func (s *Supplies) clone(ctx context.Context, g *api.Git, place string) error {
	done, err := cloneBy(ctx, s, g, func(o chore.Clone) chore.Order {
		o.Dir = place
		return chore.Order{Clone: &o}
	})
	if err == nil {
		s.notes.Notice("%s", fault.T("code %s at %s", "代码 %s，提交 %s", g.URL, done.Commit).Pack())
	}
	return err
}

// finalFault says that fetching again brings the same.
func finalFault(err error) bool {
	var f *fault.Error
	var p *fs.PathError // our own disk, not the network
	return link.Permanent(err) || errors.As(err, &f) || errors.As(err, &p)
}

func asStartFault(err error) error {
	var f *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return &process.StartFault{Code: process.CodeNotExecutable, Cause: err, Text: fault.Text{EN: f.Message.EN + " " + f.Hint.EN, ZH: f.Message.ZH + f.Hint.ZH}}
	case link.Permanent(err):
		return process.CantStart(process.CodeNotExecutable, err,
			"The code archive is not there any more; upload it and submit the task again.",
			"代码归档已不存在；请重新上传并提交任务。")
	}
	return err
}

// fetch brings the archive to a process that has become the tenant, which unpacks it in its place. Nothing starts before it
// is whole and what its digest says.
func (s *Supplies) fetch(ctx context.Context, digest, place string) error {
	sum := sha256.New()
	err := s.at.feed(ctx, chore.Order{Unpack: &chore.Unpack{Dir: place}}, func(w io.Writer) error {
		return s.from.FetchArchive(ctx, digest, io.MultiWriter(w, sum))
	})
	if err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != digest {
		return fault.New(fault.Invalid, "BadArchive", fault.T("The stored code archive is damaged: it is not what its digest says.",
			"已存储的代码归档已损坏：内容与摘要不符。")).
			WithHint(fault.T("Upload it and submit the task again.", "请重新上传并提交任务。")).
			Because(fmt.Errorf("digest %s instead of %s", got, digest))
	}
	return nil
}

func isOurs(err error) bool {
	var f *fault.Error
	return errors.As(err, &f)
}
