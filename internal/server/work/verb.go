package work

import (
	"context"
	"fmt"
	"net/http"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Verb is what people do with work of a kind beside changing its spec, such as start and stop.
type Verb struct {
	Word    string // "start"
	Summary string
	// Do writes the wish, which came now, into a copy, and says what the caller is told; false: there is nothing to change.
	Do func(o api.Work, now time.Time) (said fault.Text, changed bool)
	// Asks are what a call may say beside the object's name; Wish is then called in Do's place, with it. Both may be absent.
	Asks []rest.Param
	Wish func(ctx context.Context, find *truth.Truth, c *rest.Call, o api.Work) (said fault.Text, changed bool, err error)
	// May refuses what can't be done now; nil: it may always.
	May func(o api.Work) error
	// Begins: it runs again, if the rules of now let it.
	Begins bool
	// Ends: it works on a full disk, too.
	Ends bool
	// Event is told of it, with its reason.
	Reason string
	Event  fault.Text
}

// verbs are the routes of a row's verbs.
func (s *Works) verbs(r *Row, reg *rest.Schemas, rules *access.Rules, row api.KindInfo) (out []*rest.Route) {
	for _, v := range r.Verbs {
		id, query := v.Word+string(row.Kind), append([]rest.Param{rest.ParamProject}, v.Asks...)
		if v.Ends {
			query = append(query, r.force()...)
		}
		rules.AsWrite(id, row.Kind)
		out = append(out, &rest.Route{
			Method: http.MethodPost, Path: fmt.Sprintf("%s/%s/{name}/%s", rest.Prefix, row.Plural, v.Word), ID: id, Summary: v.Summary, Tag: row.Plural, Kind: row.Kind,
			Verb: v.Word, Query: query, Data: reg.Kind(row),
			Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) { return s.do(ctx, c, r, row, v) },
		})
	}
	return out
}

func (s *Works) do(ctx context.Context, c *rest.Call, r *Row, row api.KindInfo, v Verb) (*rest.Reply, error) {
	name := c.R.PathValue("name")
	c.Note.Names(row.Kind, name)
	f, err := s.Finder.Resolve(ctx, c, row, name)
	if err != nil {
		return nil, err
	}
	o := f.Object
	if err := s.Finder.Judge.MayWrite(ctx, c.Who, o); err != nil {
		return nil, err
	}
	if err := r.May(c.Who, o); err != nil {
		return nil, err
	}
	if f.Archived || o.GetMeta().DeletedAt != nil {
		return nil, refuse.Missing(row, name)
	}
	c.Note.Before(o)
	if v.Ends {
		if err := r.free(c, o); err != nil {
			return nil, err
		}
		ctx = store.Urgent(ctx)
	}
	for range truth.Retries {
		if v.May != nil {
			if err := v.May(o.(api.Work)); err != nil {
				return nil, err
			}
		}
		next := store.Clone(o)
		said, changed, err := v.wish(ctx, s, c, next.(api.Work))
		if err != nil {
			return nil, err
		}
		if !changed {
			c.Note.Skip = true
			return &rest.Reply{Message: said, Data: o, Revision: o.GetMeta().Revision}, nil
		}
		if v.Begins {
			err := s.Gate.MayReturn(ctx, next.(api.Work))
			if err == nil {
				err = s.admit(ctx, c.Who, o.(api.Work), next.(api.Work))
			}
			if err != nil {
				return nil, err
			}
		}
		next.GetMeta().UpdatedAt = s.Clock.Now().UTC()
		rev, err := s.Finder.Truth.Write(ctx, store.Update(next))
		if err == nil {
			c.Note.After(next)
			c.Tell(next, v.Reason, v.Event)
			return &rest.Reply{Message: said, Data: next, Revision: rev}, nil
		}
		if fault.ReasonOf(err) != "Stale" {
			return nil, err
		}
		if o, err = s.Finder.Truth.Get(ctx, api.KeyOf(o), o.GetMeta().Revision+1); err != nil {
			return nil, err
		}
	}
	return nil, errBusy
}

func (v *Verb) wish(ctx context.Context, s *Works, c *rest.Call, o api.Work) (said fault.Text, changed bool, err error) {
	if v.Wish != nil {
		return v.Wish(ctx, s.Finder.Truth, c, o)
	}
	said, changed = v.Do(o, s.Clock.Now().UTC())
	return said, changed, nil
}

var errBusy = fault.New(fault.Conflict, "Stale", fault.T("It changes all the time; try again.", "该对象频繁变化，请重试。"))
