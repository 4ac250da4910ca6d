package kinds

import (
	"context"
	"io"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/sealed"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// ReadOutput reads small files that replicas left, verified.
func ReadOutput(b blob.Store) func(ctx context.Context, replica engine.Name, file string, most int64) ([]byte, error) {
	return func(ctx context.Context, replica engine.Name, file string, most int64) ([]byte, error) {
		parts, err := link.ParseName(replica)
		if err != nil {
			return nil, err
		}
		r, info, err := sealed.Open(ctx, b, parts.OutputPrefix()+file)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		if info.Size > most {
			return nil, fault.New(fault.TooLarge, "TooLarge", fault.T("%s has %d bytes; at most %d are read.", "%s 有 %d 字节，最多读取 %d 字节。", file, info.Size, most))
		}
		return io.ReadAll(io.LimitReader(r, most))
	}
}
