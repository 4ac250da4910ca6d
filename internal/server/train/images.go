package train

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// RankImage is what one rank has of a checkpoint, as the file of a slot with its header last and a SHA-256 behind it. Send
// is called once at most, Close always.
type RankImage interface {
	// Size is how many bytes Send writes.
	Size() int64
	// Send writes verified bytes only; an error after some of them means that they are worth nothing.
	Send(ctx context.Context, w io.Writer) error
	// Files are what the script saved, where it saves files itself; otherwise the file of the slot. They are read, verified, until Close.
	Files(ctx context.Context) ([]asset.File, asset.Opener, error)
	Close() error
}

// SavedFiles are those of a checkpoint, of all ranks.
type SavedFiles struct {
	Task  *api.TrainingTask
	Step  int64
	Files []asset.File
	Open  asset.Opener
	Close func()
}

// FilesOf opens the files of a checkpoint of a task, by name or id, that the caller may see in the project; step 0: the newest. A refusal says where the
// task and the step were named, below at.
func (s *States) FilesOf(ctx context.Context, c *rest.Call, project, at, task string, step int64) (*SavedFiles, error) {
	t, err := s.origins.taskIn(ctx, c, project, task)
	if fault.Is(err, fault.NotFound) {
		return nil, refuse.Invalid(at+".task", fault.T("There is no task %q in the project %q.", "项目 %[2]q 中没有任务 %[1]q。", task, project))
	}
	if err != nil {
		return nil, err
	}
	found, err := s.origins.checkpointAt(ctx, t, at+".step", step, false)
	if err != nil {
		return nil, err
	}
	var images []RankImage
	out := &SavedFiles{Task: t, Step: found.Step, Close: func() {
		for _, i := range images {
			_ = i.Close() // only read
		}
	}}
	opens := map[string]asset.Opener{}
	for rank := range found.Ranks {
		image, err := s.imageOf(ctx, t, found, rank)
		if err != nil {
			out.Close()
			return nil, err
		}
		images = append(images, image)
		files, open, err := image.Files(ctx)
		if err != nil {
			out.Close()
			return nil, err
		}
		for _, f := range files {
			if opens[f.Path] == nil { // of two ranks with one name the first counts
				opens[f.Path], out.Files = open, append(out.Files, f)
			}
		}
	}
	out.Open = func(path string) (io.ReadCloser, error) {
		if open := opens[path]; open != nil {
			return open(path)
		}
		return nil, fs.ErrNotExist
	}
	return out, nil
}

func (s *States) imageRoute(row api.KindInfo, one string) *rest.Route {
	return &rest.Route{
		Method: http.MethodGet, Path: one + "/checkpoints/{step}/ranks/{rank}", ID: "readCheckpointRank", Tag: row.Plural,
		Summary: "What a rank has of a checkpoint, verified: the file of a slot, its first 4096 bytes last, then the SHA-256 of all that; see docs/reference/checkpoint-format.md.",
		Kind:    row.Kind, Query: []rest.Param{rest.ParamProject}, Media: "application/octet-stream", Verb: "read-checkpoint", Look: true, Handle: s.readRank,
	}
}

// readRank sends one rank's state, from the shared store where that has it, else from a node's disk that this machine has.
func (s *States) readRank(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, task, err := s.desk.task(ctx, c)
	if err != nil {
		return nil, err
	}
	step, rank, err := stepAndRank(c.R)
	if err != nil {
		return nil, err
	}
	found, err := s.origins.checkpointOf(ctx, task, step)
	if err != nil {
		return nil, err
	}
	if rank >= found.Ranks {
		return nil, refuse.Invalid("rank", fault.T("The checkpoint of step %d has ranks 0 to %d.", "第 %d 步的检查点包含进程 0 至 %d。", step, found.Ranks-1))
	}
	image, err := s.imageOf(ctx, task, found, rank)
	if err != nil {
		return nil, err
	}
	defer func() { _ = image.Close() }() // only read
	h := c.W.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(image.Size(), 10))
	h.Set("Content-Disposition", rest.Attachment("rank-"+strconv.Itoa(rank)+".image"))
	defer s.streams.Guard(ctx, c, task)()
	s.auditor.RememberRead(c, fmt.Sprintf("step %d, rank %d", step, rank))
	if err := image.Send(ctx, c.Patient()); err != nil {
		return nil, err // the connection is cut: half a state must not look whole
	}
	return nil, nil
}

// imageOf takes the first place that has the bytes and is not known to be damaged.
func (s *States) imageOf(ctx context.Context, task *api.TrainingTask, found *api.Checkpoint, rank int) (RankImage, error) {
	err := spoiled("step", found)
	for _, tier := range []string{"shared", "local"} {
		if !found.Whole(tier) {
			continue
		}
		var image RankImage
		if image, err = s.saved.Image(ctx, task.Meta.ID, found.Name, tier, rank); err == nil {
			return image, nil
		}
		if fault.CodeOf(err).Retry() {
			break // it may be there in a moment
		}
	}
	return nil, err
}
