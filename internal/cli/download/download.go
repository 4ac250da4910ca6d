package download

import (
	"context"
	"fmt"
	"io"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxCuts is how often a download goes on behind a cut.
const maxCuts = 5

// File writes an output to w. open asks for a part of it, as it was listed; read wraps what comes.
func File(ctx context.Context, w io.Writer, listed client.Output, unverified bool, open func(client.OutputPart) (io.ReadCloser, int64, error), read func(io.Reader) io.Reader) error {
	part := client.OutputPart{Unverified: unverified}
	for cut := 0; ; cut++ {
		n, err := one(w, part, open, read)
		if err == nil {
			return nil
		}
		// Who asks for the rest hears why it was cut, or gets it.
		part.Unmodified = listed.Modified
		if part.From += n; cut == maxCuts || n == 0 || fault.ReasonOf(err) != "CutShort" || ctx.Err() != nil {
			return err
		}
	}
}

// one writes what comes of a part, and says how much that was.
func one(w io.Writer, part client.OutputPart, open func(client.OutputPart) (io.ReadCloser, int64, error), read func(io.Reader) io.Reader) (int64, error) {
	body, length, err := open(part)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	n, err := io.Copy(w, read(body))
	if err == nil && length >= 0 && n != length {
		err = fmt.Errorf("%d of %d bytes", n, length)
	}
	if err != nil {
		return n, CutShort(err)
	}
	return n, nil
}

// CutShort says that a transfer did not come to its end.
func CutShort(err error) error {
	if err == nil {
		return nil
	}
	return fault.New(fault.Unavailable, "CutShort", fault.T(
		"The transfer broke off before its end; try again.", "传输中断，请重试。")).Because(err)
}
