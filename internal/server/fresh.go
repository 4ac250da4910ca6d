package server

import (
	"context"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// What a read promises, on every server:
//
//   - plain: the state of some moment at most about three seconds ago, or 503;
//   - with minRevision (Fermi-Revision of a write or read): at least that state;
//   - with the header "Fermi-Read: fresh": linearizable, at the price of one question to the quorum; a
//     write with it decides on what a fresh read would see.
const (
	headerRead = "Fermi-Read"
	readFresh  = "fresh"
)

// readFresh makes a fresh call one with the newest minRevision.
func (c *call) readFresh(ctx context.Context) error {
	switch c.r.Header.Get(headerRead) {
	case "":
		return nil
	case readFresh:
	default:
		return fault.New(fault.Invalid, "BadRead", fault.T(
			"The header Fermi-Read is %q or absent.", "请求头 Fermi-Read 只能是 %q 或省略。", readFresh))
	}
	now, err := c.s.Store.Now(ctx)
	if err != nil {
		return err
	}
	c.q.by["minRevision"] = []string{strconv.FormatInt(max(now, c.q.number("minRevision")), 10)}
	return nil
}

// newer is a revision to look again at for what was not found at minRevision: another server may have
// made it a moment ago. 0: there is no other server, the caller has said how new is new enough, or
// too many look for what is not there.
func (s *Server) newer(ctx context.Context, minRevision int64) int64 {
	if s.Contact == nil || minRevision > 0 || !s.looks.Allow() {
		return 0
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return 0
	}
	return now
}

// findNow reads at a revision that is asked for first.
func (s *Server) findNow(ctx context.Context, key api.Key) (api.Object, error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, key, now)
}
