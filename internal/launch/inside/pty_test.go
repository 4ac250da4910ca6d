package inside

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSizes: a terminal has the size that was asked for, within bounds; what is not known is the usual.
func TestSizes(t *testing.T) {
	for asked, want := range map[Size]Size{
		{Columns: 100, Rows: 30}: {Columns: 100, Rows: 30}, {}: {Columns: 80, Rows: 24}, {Columns: 1 << 20, Rows: -1}: {Columns: maxSide, Rows: 24},
	} {
		ours, theirs, err := openTerminal(0, asked)
		if err != nil {
			t.Fatal(err)
		}
		got, err := unix.IoctlGetWinsize(theirs, unix.TIOCGWINSZ)
		if err != nil || int(got.Col) != want.Columns || int(got.Row) != want.Rows {
			t.Errorf("%v: %+v, %v", asked, got, err)
		}
		_, _ = syscall.Close(ours), syscall.Close(theirs)
	}
}
