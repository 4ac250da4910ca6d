package cgroup

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Version 2 has no file for devices: the kernel asks a program that is attached to the group whether one
// of its members may open a device. The program stays with the group when we end, and goes with it.
//
// The kernel hands it a struct bpf_cgroup_dev_ctx: access_type (what is asked for above 16 bits, the
// kind of device below), major, minor.
const (
	ctxAccess, ctxMajor, ctxMinor = 0, 4, 8

	kindBlock, kindChar = unix.BPF_DEVCG_DEV_BLOCK, unix.BPF_DEVCG_DEV_CHAR
	askMake             = unix.BPF_DEVCG_ACC_MKNOD
)

// program allows to make any device file, and to open those that are listed.
func program(open []Device) asm.Instructions {
	const kind, ask, major, minor = asm.R2, asm.R3, asm.R4, asm.R5
	code := asm.Instructions{
		asm.LoadMem(kind, asm.R1, ctxAccess, asm.Word),
		asm.Mov.Reg32(ask, kind),
		asm.And.Imm32(kind, 0xffff),
		asm.RSh.Imm32(ask, 16),
		asm.LoadMem(major, asm.R1, ctxMajor, asm.Word),
		asm.LoadMem(minor, asm.R1, ctxMinor, asm.Word),
		asm.JEq.Imm32(ask, askMake, "allow"),
	}
	for i, d := range open {
		next := fmt.Sprintf("next-%d", i)
		want := int32(kindChar)
		if d.Block {
			want = kindBlock
		}
		code = append(code, asm.JNE.Imm32(kind, want, next), asm.JNE.Imm32(major, int32(d.Major), next))
		if d.Minor >= 0 {
			code = append(code, asm.JNE.Imm32(minor, int32(d.Minor), next))
		}
		code = append(code, asm.Ja.Label("allow"), asm.Mov.Imm32(asm.R0, 0).WithSymbol(next))
	}
	return append(code,
		asm.Mov.Imm32(asm.R0, 0), asm.Return(),
		asm.Mov.Imm32(asm.R0, 1).WithSymbol("allow"), asm.Return())
}

// attachRule attaches the program to a group. A second one narrows: what both allow is open, so a group
// that is found again keeps the rule it was born with.
func attachRule(dir string, open []Device) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "fermi_devices", Type: ebpf.CGroupDevice, License: "Apache-2.0", Instructions: program(open)})
	if err != nil {
		return fmt.Errorf("load the devices rule: %w", err)
	}
	defer p.Close()
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	err = link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(f.Fd()), Program: p, Attach: ebpf.AttachCGroupDevice, Flags: unix.BPF_F_ALLOW_MULTI,
	})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("attach the devices rule: %w", err)
	}
	return nil
}
