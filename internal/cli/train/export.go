package train

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/download"
	"github.com/fermi-cluster/fermi/internal/cli/pack"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/slot"
)

// The file of a slot, as far as a client looks into it: docs/reference/rank-protocol.md.
const (
	slotMagic = slot.Magic
	slotPage  = slot.Data // the header, and nothing behind it
)

// slotName is the file of a rank in a folder of slots.
func slotName(rank int) string { return fmt.Sprintf("rank-%d.slot", rank) }

// exportStep fetches a checkpoint into a folder that is there, with all ranks, when nothing failed, and else is not.
func exportStep(ctx context.Context, s *call.Session, name string, step int64, dir string) error {
	if err := freshFolder(dir); err != nil {
		return err
	}
	chosen, err := toExport(ctx, s, name, step)
	if err != nil {
		return err
	}
	dir = filepath.Clean(dir)
	temp, err := os.MkdirTemp(filepath.Dir(dir), ".fermi-export-")
	if err != nil {
		return call.BadFile(dir, err)
	}
	defer os.RemoveAll(temp)
	bar := s.Progress(s.T("fetching", "下载"), int64(chosen.Size))
	defer bar.Done()
	for rank := range chosen.Ranks {
		if err := fetchRank(ctx, s, name, chosen, rank, filepath.Join(temp, slotName(rank)), bar); err != nil {
			return whyCut(ctx, s, name, chosen, err)
		}
	}
	bar.Done()
	if err := errors.Join(os.Chmod(temp, 0o755), os.Rename(temp, dir)); err != nil {
		return call.BadFile(dir, err)
	}
	show.Line(s.Out, dir)
	s.Say("Step %d of %d [rank|ranks], %s, every byte verified.", "第 %d 步，%d 个进程，%s，每个字节均已校验。", chosen.Step, chosen.Ranks, show.Size(int64(chosen.Size)))
	s.Say("For others to read: python3 -m fermi.convert %s OUT.pt (or OUT.safetensors, or a folder of PyTorch DCP: OUT/)",
		"转换为其他格式：python3 -m fermi.convert %s OUT.pt（或 OUT.safetensors，或 PyTorch DCP 目录 OUT/）", dir)
	return nil
}

// freshFolder refuses a folder in which something else lies: ranks of two checkpoints must never be side by side.
func freshFolder(dir string) error {
	if dir == "" {
		return fault.New(fault.Invalid, "Usage", fault.T("--export needs the folder to make.", "--export 需要指定要创建的文件夹。"))
	}
	in, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(in) == 0:
		return nil
	case err != nil:
		return call.BadFile(dir, err)
	}
	return fault.New(fault.Conflict, "FolderInUse", fault.T("The folder %s is not empty; name a new one.", "文件夹 %s 非空，请指定新文件夹。", dir))
}

// toExport is the checkpoint of a step, or the newest that is whole somewhere.
func toExport(ctx context.Context, s *call.Session, name string, step int64) (*api.Checkpoint, error) {
	list, err := s.Client.Checkpoints(ctx, s.Project(api.KindTrainingTask), name)
	if err != nil {
		return nil, err
	}
	var steps []string
	for i := len(list) - 1; i >= 0; i-- {
		if step == list[i].Step || step == 0 && list[i].Whole("") {
			return &list[i], nil
		}
		steps = append([]string{fmt.Sprint(list[i].Step)}, steps...)
	}
	if len(list) == 0 {
		return nil, fault.New(fault.NotFound, "NoCheckpoint", fault.T("The task has no checkpoints.", "该任务没有检查点。"))
	}
	if step == 0 {
		return nil, damaged(s, list, 0)
	}
	return nil, fault.New(fault.NotFound, "NoCheckpoint", fault.T("The task has no checkpoint of step %d; it has those of steps %s.", "任务没有第 %d 步的检查点；现有步数：%s。", step, strings.Join(steps, ", ")))
}

// whyCut says what the server found when it sent no more: it keeps that with the checkpoint.
func whyCut(ctx context.Context, s *call.Session, name string, chosen *api.Checkpoint, err error) error {
	if fault.ReasonOf(err) != "CutShort" || ctx.Err() != nil {
		return err
	}
	list, failed := s.Client.Checkpoints(ctx, s.Project(api.KindTrainingTask), name)
	for i := range list {
		if failed == nil && list[i].Name == chosen.Name && !list[i].Whole("") {
			return damaged(s, list[i:i+1], 0)
		}
	}
	return err
}

// fetchRank writes one rank's slot, durable when it returns; the server sends its header last.
func fetchRank(ctx context.Context, s *call.Session, name string, of *api.Checkpoint, rank int, path string, bar *call.Progress) error {
	body, length, err := s.Client.OpenRank(ctx, s.Project(api.KindTrainingTask), name, of.Step, rank)
	if err != nil {
		return err
	}
	defer body.Close()
	const tail = slotPage + sha256.Size
	if length < tail {
		return notASlot()
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return call.BadFile(path, err)
	}
	defer f.Close()
	in, whole := &pack.Reader{Ctx: ctx, R: body, Add: bar.Add}, sha256.New()
	if _, err := f.Seek(slotPage, io.SeekStart); err != nil {
		return call.BadFile(path, err)
	}
	if n, err := io.Copy(io.MultiWriter(f, whole), io.LimitReader(in, length-tail)); err != nil {
		return writeOrCut(path, err)
	} else if n < length-tail {
		return download.CutShort(io.ErrUnexpectedEOF)
	}
	end := make([]byte, tail)
	if _, err := io.ReadFull(in, end); err != nil {
		return download.CutShort(err)
	}
	page := end[:slotPage]
	whole.Write(page)
	if !bytes.Equal(whole.Sum(nil), end[slotPage:]) {
		return download.CutShort(errors.New("the bytes that came are not those that were sent"))
	}
	if err := checkPage(page, of, rank); err != nil {
		return err
	}
	if _, err := f.WriteAt(page, 0); err != nil {
		return call.BadFile(path, err)
	}
	return badFileOrNil(path, errors.Join(f.Sync(), f.Close()))
}

// checkPage sees to it that all ranks are of one checkpoint: another one of the same step may have been made meanwhile.
func checkPage(page []byte, of *api.Checkpoint, rank int) error {
	le := binary.LittleEndian
	if !bytes.HasPrefix(page, []byte(slotMagic)) {
		return notASlot()
	}
	if le.Uint32(page[12:]) != uint32(rank) || le.Uint32(page[16:]) != uint32(of.Ranks) || le.Uint64(page[24:]) != uint64(of.Generation) || le.Uint64(page[32:]) != uint64(of.Step) {
		return fault.New(fault.Conflict, "AnotherCheckpoint", fault.T(
			"Another checkpoint of step %d was made meanwhile; try again.", "其间产生了第 %d 步的另一个检查点，请重试。", of.Step))
	}
	return nil
}

func notASlot() error {
	return fault.New(fault.Internal, "BadAnswer", fault.T("The server sent something that is no state of a rank.", "服务器返回的内容不是进程状态。"))
}

// writeOrCut tells a disk that takes no more from a line that brings no more.
func writeOrCut(path string, err error) error {
	var disk *fs.PathError
	if errors.As(err, &disk) {
		return call.BadFile(path, err)
	}
	return download.CutShort(err)
}

func badFileOrNil(path string, err error) error {
	if err == nil {
		return nil
	}
	return call.BadFile(path, err)
}
