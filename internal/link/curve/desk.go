package curve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
)

// Desk takes the points of launchers at a server. Safe for concurrent use.
type Desk struct {
	linkpb.UnimplementedCurvesServer
	points history.Metrics
	may    func(ctx context.Context, of link.Parts) error
	log    *slog.Logger
	open   atomic.Int64 // launchers that hand over
}

// NewDesk makes one; may says fault NotFound of a task that is gone, whose points nobody would ever delete, and Forbidden of a replica
// whose points count no more. Nil: all may.
func NewDesk(points history.Metrics, may func(ctx context.Context, of link.Parts) error, log *slog.Logger) *Desk {
	if may == nil {
		may = func(context.Context, link.Parts) error { return nil }
	}
	return &Desk{points: points, may: may, log: log}
}

// Register is for Hub.Serve, which lets nobody in without the token of a replica.
func (d *Desk) Register(r grpc.ServiceRegistrar) { linkpb.RegisterCurvesServer(r, d) }

const (
	// least is between two batches of a launcher. Each launcher makes it so much longer, so that a server takes about a hundred
	// batches a second, however many there are.
	least   = time.Second
	perEach = 10 * time.Millisecond
)

// pace is when the next batch of a launcher is due.
func (d *Desk) pace() time.Duration {
	return min(max(least, time.Duration(d.open.Load())*perEach), mostWait)
}

// Put takes batches one after the other.
func (d *Desk) Put(stream linkpb.Curves_PutServer) error {
	ctx := stream.Context()
	md, _ := metadata.FromIncomingContext(ctx)
	names := md.Get(link.MetaReplica)
	if len(names) != 1 {
		return status.Error(codes.Unauthenticated, "one replica, please")
	}
	parts, err := link.ParseName(engine.Name(names[0]))
	if err != nil {
		return status.Error(codes.Unauthenticated, "the replica has no such name")
	}
	d.open.Add(1)
	defer d.open.Add(-1)
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		ack := &linkpb.PointAck{Seq: m.GetSeq(), NextNanos: int64(d.pace())}
		if err := d.take(ctx, parts, m); err != nil {
			f := fault.From(err)
			if !final(f) { // it may be sent again
				d.log.Debug("points were not committed", "task", parts.TaskID, "error", err)
				return status.Error(codes.Unavailable, f.Reason)
			}
			ack.Refused = f.Reason
		}
		if err := stream.Send(ack); err != nil {
			return err
		}
	}
}

// final says that the same batch would be refused again.
func final(f *fault.Error) bool {
	return f.Code == fault.Invalid || f.Code == fault.NotFound || f.Code == fault.TooLarge || f.Code == fault.Forbidden
}

func (d *Desk) take(ctx context.Context, of link.Parts, m *linkpb.PointBatch) error {
	if len(m.GetLines()) > history.MaxBatch {
		return fault.New(fault.TooLarge, "BatchTooLarge", fault.T("A batch of points has over %d bytes.", "数据点批次超过 %d 字节。", history.MaxBatch))
	}
	lines, err := history.DecodeLines(m.GetLines())
	if err != nil {
		return fault.New(fault.Invalid, "BadPoints", fault.T("A batch of points can't be read.", "无法读取数据点批次。")).Because(err)
	}
	if err := d.may(ctx, of); err != nil {
		return err
	}
	return d.points.AddPoints(ctx, history.Batch{TaskID: of.TaskID, Replica: of.LogKey(), Seq: m.GetSeq(), Dropped: m.GetDropped(), Lines: lines})
}
