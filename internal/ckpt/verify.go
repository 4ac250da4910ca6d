package ckpt

import (
	"context"
	"path"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Verdict is what was found when every byte of a checkpoint was read back last; the zero one: that never happened.
type Verdict struct {
	At     time.Time  `json:"at"`
	Damage fault.Text `json:"damage,omitzero"` // and in which object; zero: all is as it was written
}

// Bad says that something was found.
func (v Verdict) Bad() bool { return !v.Damage.IsZero() }

// verdictRecord is a Verdict as it lies beside the manifests.
type verdictRecord struct {
	Version int `json:"version"`
	Verdict
}

const maxVerdict = 64 << 10

// Verify reads every byte of a checkpoint that its parts name, each chunk once, and again where it is not as it was written.
func (r *Repo) Verify(ctx context.Context, name string) error {
	src, err := r.open(ctx, name)
	if err != nil {
		return err
	}
	var all []piece
	for rank := range src.m.World {
		p, err := src.part(ctx, rank)
		if err != nil {
			return err
		}
		all = append(all, piece{rank, 0, 0, p.Data + p.Tree})
	}
	return src.fetch(ctx, all, nowhere{})
}

type nowhere struct{}

func (nowhere) WriteAt([]byte, int64) error { return nil }

// Check verifies a checkpoint whose parts are all here, and keeps the verdict with it. What is found is no error of
// Check; one that is there no more is fault NotFound.
func (r *Repo) Check(ctx context.Context, name string) (Verdict, error) {
	why := r.Verify(ctx, name)
	v := Verdict{At: r.cfg.Clock.Now().UTC()}
	switch {
	case Lost(why):
		v.Damage = fault.From(why).Message
	case why != nil:
		return v, why
	}
	return v, r.Judge(ctx, name, v)
}

// Lost says that what lies there is not what was written, or is not there; each is said only after a second look.
func Lost(err error) bool {
	reason := fault.ReasonOf(err)
	return reason == "Damaged" || fault.Is(err, fault.NotFound) && reason != noSlot
}

// Judge keeps a verdict with a checkpoint; fault NotFound where it is there no more.
func (r *Repo) Judge(ctx context.Context, name string, v Verdict) error {
	if _, _, err := parseName(name); err != nil {
		return err
	}
	if _, err := r.put(ctx, verdictsDir+name, mustJSON(verdictRecord{Version, v})); err != nil {
		return err
	}
	// It may have been dropped meanwhile: a verdict of nothing goes too. One whose record is torn has its verdict.
	_, err := r.Manifest(ctx, name)
	if fault.Is(err, fault.NotFound) {
		if gone := r.delete(ctx, verdictsDir+name); gone != nil {
			return gone
		}
		return err
	}
	if passing(ctx, err) {
		return err
	}
	return nil
}

// Vouch keeps with a checkpoint that as many ranks as wrote it have read all of it at a time, unless there is a later
// verdict. Another number of ranks need not have read every byte: that says nothing.
func (r *Repo) Vouch(ctx context.Context, name string, world uint32, at time.Time) error {
	m, err := r.Manifest(ctx, name)
	if err != nil || m.World != world {
		return err
	}
	if v, err := (verdicts{r.objects}).of(ctx, name); err != nil || !v.At.Before(at) {
		return err
	}
	return r.Judge(ctx, name, Verdict{At: at})
}

// verdicts are what was found of checkpoints, beside them.
type verdicts struct{ objects }

// of is what was found of one. A record that can't be read is none: it is found out again.
func (v verdicts) of(ctx context.Context, name string) (Verdict, error) {
	raw, err := v.read(ctx, verdictsDir+name, maxVerdict)
	if passing(ctx, err) {
		return Verdict{}, err
	}
	var found verdictRecord
	if err != nil || decodeStrict(raw, &found) != nil {
		return Verdict{}, nil
	}
	return found.Verdict, nil
}

// all there are, by the name of the checkpoint.
func (v verdicts) all(ctx context.Context) (map[string]Verdict, error) {
	found, err := v.list(ctx, verdictsDir)
	out := map[string]Verdict{}
	for _, o := range found {
		name := path.Base(o.name)
		if out[name], err = v.of(ctx, name); err != nil {
			break
		}
	}
	return out, err
}
