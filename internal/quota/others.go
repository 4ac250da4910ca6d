package quota

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/ledger"
	"github.com/fermi-cluster/fermi/internal/clock"
)

// Servers that share a store of bytes tell each other what they wrote: each keeps one small object with what it added for every project since
// it began. Who counted everything notes where the others were then; what they are beyond that comes on top. So a limit holds over several
// servers within a few seconds, and nothing is written for every piece of a log. The result of the last count is kept too, for who starts.

const (
	totalsAt  = "usage/totals"
	wroteAt   = "usage/wrote/"
	tellEvery = 5 * time.Second
	maxUsage  = 64 << 20
)

// recall takes the last count that anybody made until this process has made its own.
func (b *Book) recall(ctx context.Context) {
	var totals map[string]ledger.Sums
	if err := b.get(ctx, totalsAt, &totals); err == nil {
		b.ledger.Assume(totals)
	}
}

// exchange tells the others what was written here, and counts what they wrote.
func (b *Book) exchange(ctx context.Context) error {
	if b.cfg.Server == "" {
		return nil
	}
	// Who says nothing for hours is taken for gone, so it is said again also when nothing changed.
	if wrote, now := b.ledger.Wrote(), clock.Real.Now(); !maps.Equal(wrote, b.said) || now.Sub(b.saidAt) > countEvery {
		if err := b.put(ctx, wroteAt+b.cfg.Server, wrote); err != nil {
			return err
		}
		b.said, b.saidAt = wrote, now
	}
	if !b.ledger.Counted() {
		return nil
	}
	now, err := b.heard(ctx)
	if err != nil {
		return err
	}
	more := map[string]ledger.Sums{}
	for server, wrote := range now {
		for project, sums := range wrote {
			sum := more[project]
			for class, n := range sums {
				sum[class] += n - b.base[server][project][class]
			}
			more[project] = sum
		}
	}
	b.ledger.Others(more)
	return nil
}

// heard is what each other server says it wrote. Those that ended before every count of now are forgotten.
func (b *Book) heard(ctx context.Context) (map[string]map[string]ledger.Sums, error) {
	out := map[string]map[string]ledger.Sums{}
	if b.cfg.Server == "" {
		return out, nil
	}
	var list []blob.Info
	if err := each(ctx, b.cfg.Blob, wroteAt, func(o blob.Info) { list = append(list, o) }); err != nil {
		return nil, err
	}
	for _, o := range list {
		server := strings.TrimPrefix(o.Key, wroteAt)
		if server == b.cfg.Server {
			continue
		}
		if clock.Real.Now().Sub(o.Modified) > 3*countEvery {
			_ = b.cfg.Blob.Delete(ctx, o.Key)
			continue
		}
		var wrote map[string]ledger.Sums
		if err := b.get(ctx, o.Key, &wrote); err == nil {
			out[server] = wrote
		}
	}
	return out, nil
}

func (b *Book) put(ctx context.Context, key string, sums map[string]ledger.Sums) error {
	data, err := json.Marshal(sums)
	if err == nil {
		_, err = b.cfg.Blob.Put(ctx, key, bytes.NewReader(data))
	}
	return err
}

func (b *Book) get(ctx context.Context, key string, into *map[string]ledger.Sums) error {
	r, _, err := b.cfg.Blob.Open(ctx, key)
	if err != nil {
		return err
	}
	defer r.Close()
	return json.NewDecoder(io.LimitReader(r, maxUsage)).Decode(into)
}
