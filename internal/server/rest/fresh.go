package rest

import (
	"context"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// What a read promises, on every server:
//
//   - plain: the state of some moment at most about three seconds ago, or 503;
//   - with minRevision (Fermi-Revision of a write or read): at least that state;
//   - with the header "Fermi-Read: fresh": linearizable, at the price of one question to the quorum; a
//     write with it decides on what a fresh read would see.
const (
	HeaderRead = "Fermi-Read"
	ReadFresh  = "fresh"
)

// ReadFresh makes a fresh call one with the newest minRevision; now asks for it.
func (c *Call) ReadFresh(ctx context.Context, now func(context.Context) (int64, error)) error {
	switch c.R.Header.Get(HeaderRead) {
	case "":
		return nil
	case ReadFresh:
	default:
		return fault.New(fault.Invalid, "BadRead", fault.T(
			"The header Fermi-Read is %q or absent.", "请求头 Fermi-Read 只能是 %q 或省略。", ReadFresh))
	}
	newest, err := now(ctx)
	if err != nil {
		return err
	}
	c.Query.AtLeast(max(newest, c.Query.Number("minRevision")))
	return nil
}
