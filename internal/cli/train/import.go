package train

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/pack"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// slotFile is one rank's, as its header says; whether it is whole the server finds out.
type slotFile struct {
	path       string
	world      uint32
	step       uint64
	data, tail int64 // bytes: of the data, and of tree and table behind it
}

func (f *slotFile) size() int64 { return slotPage + f.data + f.tail }

// slotsIn are the slots of all ranks in a folder.
func slotsIn(dir string) ([]slotFile, error) {
	wrong := func(t fault.Text) error { return fault.New(fault.Invalid, "BadSlots", t) }
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, wrong(fault.T("%s can't be read: %s.", "无法读取 %s：%s。", dir, call.ReasonOf(err)))
	}
	var out []slotFile
	for range found {
		path := filepath.Join(dir, slotName(len(out)))
		f, err := readHeader(path, uint32(len(out)))
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if errors.Is(err, errNoSlot) {
			return nil, wrong(fault.T("%s is no state of rank %d, or is cut short; export it again, or make the folder with python3 -m fermi.convert.",
				"%s 不是进程 %d 的状态，或文件不完整；请重新导出，或用 python3 -m fermi.convert 生成该目录。", path, len(out)))
		}
		if err != nil {
			return nil, wrong(fault.T("%s can't be read: %s.", "无法读取 %s：%s。", path, call.ReasonOf(err)))
		}
		if len(out) > 0 && (f.world != out[0].world || f.step != out[0].step) {
			return nil, wrong(fault.T("%s holds step %d of %d ranks, the others step %d of %d.", "%s 为第 %d 步、%d 个进程，其余为第 %d 步、%d 个进程。", path, f.step, f.world, out[0].step, out[0].world))
		}
		out = append(out, f)
	}
	switch {
	case len(out) == 0:
		return nil, wrong(fault.T("%s has no rank-0.slot.", "%s 中没有 rank-0.slot。", dir)).(*fault.Error).WithHint(fault.T(
			"Files of torch.save, safetensors or PyTorch DCP become slots with: python3 -m fermi.convert IN %s --step N", "可将 torch.save、safetensors 或 PyTorch DCP 转换为槽文件：python3 -m fermi.convert IN %s --step N", dir))
	case len(out) != int(out[0].world):
		return nil, wrong(fault.T("%s: rank-%d.slot is missing; there were %d ranks.", "%s：缺少 rank-%d.slot；共有 %d 个进程。", dir, len(out), out[0].world))
	}
	return out, nil
}

var errNoSlot = errors.New("no slot of that rank")

// readHeader reads what the order of the upload needs.
func readHeader(path string, rank uint32) (slotFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return slotFile{}, err
	}
	defer f.Close()
	page := make([]byte, slotPage)
	if _, err := io.ReadFull(f, page); err != nil {
		return slotFile{}, errNoSlot
	}
	le := binary.LittleEndian
	out := slotFile{path: path, world: le.Uint32(page[16:]), step: le.Uint64(page[32:])}
	info, err := f.Stat()
	if err != nil {
		return slotFile{}, err
	}
	left := uint64(info.Size()) - slotPage
	data, tree, table := le.Uint64(page[40:]), le.Uint64(page[48:]), le.Uint64(page[56:])
	if !bytes.HasPrefix(page, []byte(slotMagic)) || le.Uint32(page[12:]) != rank || data > left || tree > left-data || table > left-data-tree {
		return slotFile{}, errNoSlot
	}
	out.data, out.tail = int64(data), int64(tree+table)
	return out, nil
}

// bringSlots uploads the slots of a folder into a task that waits for them, and lets it go.
func bringSlots(ctx context.Context, s *call.Session, name, dir string) error {
	slots, err := slotsIn(dir)
	if err != nil {
		return err
	}
	var total int64
	for i := range slots {
		total += slots[i].size()
	}
	project, step := s.Project(api.KindTrainingTask), int64(slots[0].step)
	bar := s.Progress(s.T("uploading", "上传"), total)
	defer bar.Done()
	parts := make([]api.CheckpointPart, len(slots))
	for rank := range slots {
		if parts[rank], err = putRank(ctx, s, project, name, step, rank, &slots[rank], bar); err != nil {
			return err
		}
	}
	if err := s.Client.Import(ctx, project, name, step, parts); err != nil {
		return err
	}
	bar.Done()
	s.Say("Step %d of %d [rank|ranks], %s, is uploaded; the task begins from it.", "已上传第 %d 步，%d 个进程，%s；任务将从此开始。", step, len(slots), show.Size(total))
	return nil
}

// putRank sends header, tree, table, data: so the server needs to keep nothing of the data.
func putRank(ctx context.Context, s *call.Session, project, name string, step int64, rank int, slot *slotFile, bar *call.Progress) (api.CheckpointPart, error) {
	f, err := os.Open(slot.path)
	if err != nil {
		return api.CheckpointPart{}, fault.New(fault.Invalid, "BadSlots", fault.T("%s can't be read: %s.", "无法读取 %s：%s。", slot.path, call.ReasonOf(err)))
	}
	defer f.Close()
	in := io.MultiReader(io.NewSectionReader(f, 0, slotPage), io.NewSectionReader(f, slotPage+slot.data, slot.tail), io.NewSectionReader(f, slotPage, slot.data))
	part, err := s.Client.PutRank(ctx, project, name, step, rank, &pack.Reader{Ctx: ctx, R: in, Add: bar.Add}, slot.size())
	if err != nil {
		e := fault.From(err)
		if e.Reason == "BadSlot" { // the server knows no names of files
			e.Message = fault.Text{EN: slot.path + ": " + e.Message.EN, ZH: slot.path + "：" + strings.TrimSpace(e.Message.ZH)}
		}
		return part, e
	}
	return part, nil
}
