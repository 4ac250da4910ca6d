package gate

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUntouched: of a program with addresses that its loader writes and then protects, as any that uses C's library, only what is never written is
// given back; of itself, something is.
func TestUntouched(t *testing.T) {
	maps := `00400000-00600000 r-xp 00000000 fe:00 1 /bin/x
00600000-00800000 r--p 00200000 fe:00 1 /bin/x
00800000-00801000 r--p 003ff000 fe:00 1 /bin/x
00801000-00900000 rw-p 00400000 fe:00 1 /bin/x
7f000000-7f001000 r-xp 00000000 fe:00 2 /lib/y
`
	program := &elf.File{Progs: []*elf.Prog{
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_X, Filesz: 0x200000}},
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Flags: elf.PF_R, Off: 0x200000, Filesz: 0x1ff008}},
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_W, Off: 0x3ff010, Filesz: 0x100000}},
	}}
	got := untouched(strings.NewReader(maps), "/bin/x", program)
	if want := []span{{0x400000, 0x600000}, {0x600000, 0x7ff000}}; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%x", got)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	raw, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if len(untouched(strings.NewReader(string(raw)), self, own)) == 0 {
		t.Error("nothing of this program is given back")
	}
	shed()
	if out, err := exec.Command(filepath.Join("/bin", "true")).CombinedOutput(); err != nil { // it goes on
		t.Fatal(err, string(out))
	}
}
