package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// files were written by Apache Arrow 26 (pyarrow): 300 rows in groups of 200, by their codec; v2 has pages of the second version, of 512 bytes.
var files = []string{"snappy", "zstd", "gzip", "plain", "v2"}

func load(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// row is what the writer was given.
func row(i int) []string {
	or := func(hole bool, text string) string {
		if hole {
			return ""
		}
		return text
	}
	tags := "["
	for j := range i % 3 {
		if j > 0 {
			tags += ", "
		}
		tags += fmt.Sprintf("t%d", j)
	}
	return []string{
		strconv.Itoa(i), []string{"cat", "dog", "鸟"}[i%3], or(i%5 == 4, strconv.FormatFloat(float64(i)/4, 'g', -1, 64)), strconv.Itoa(i%100 - 50),
		strconv.FormatFloat(float64(i)/2, 'g', -1, 32), or(i%7 == 6, strconv.FormatBool(i%2 == 0)), time.Date(2024, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly),
		fmt.Sprintf("2024-01-01 12:00:%02d", i%60), or(i%4 == 3, tags+"]"), or(i%6 == 5, strconv.Itoa(i)), or(i%6 == 5, fmt.Sprintf("b%d", i)), "<2 B>",
		strconv.FormatUint(1<<64-1-uint64(i), 10),
	}
}

func TestHead(t *testing.T) {
	names := []string{"id", "label", "score", "small", "half", "yes", "day", "at", "tags", "box.x", "box.y", "raw", "big"}
	for _, name := range files {
		raw := load(t, name)
		got, err := Head(bytes.NewReader(raw), int64(len(raw)), 100, 50)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := &Table{Columns: names, Cut: true}
		for i := range 100 {
			want.Rows = append(want.Rows, row(i))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if few, err := Head(bytes.NewReader(raw), int64(len(raw)), 3, 2); err != nil || len(few.Columns) != 2 || len(few.Rows) != 3 || !few.Cut {
			t.Errorf("%s: %+v, %v", name, few, err)
		}
	}
}

// TestLies: what a file says of its lengths is believed as far as it has the bytes.
func TestLies(t *testing.T) {
	raw := load(t, "snappy")
	for name, spoil := range map[string]func([]byte) []byte{
		"nothing":            func([]byte) []byte { return nil },
		"only magic":         func([]byte) []byte { return []byte("PAR1PAR1PAR1") },
		"a footer of 4 GiB":  func(b []byte) []byte { binary.LittleEndian.PutUint32(b[len(b)-8:], 0xffffffff); return b },
		"a footer too long":  func(b []byte) []byte { binary.LittleEndian.PutUint32(b[len(b)-8:], uint32(len(b))); return b },
		"a footer of zeroes": func(b []byte) []byte { clear(b[len(b)-200 : len(b)-8]); return b[len(b)-208:] },
		"cut":                func(b []byte) []byte { return b[:len(b)/2] },
		"a list of 2^60": func([]byte) []byte {
			foot := []byte{0x29, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10, 0}
			return append(binary.LittleEndian.AppendUint32(append([]byte("PAR1"), foot...), uint32(len(foot))), "PAR1"...)
		},
		"structures that go down for ever": func([]byte) []byte {
			foot := bytes.Repeat([]byte{0x1c}, 1<<16)
			return append(binary.LittleEndian.AppendUint32(append([]byte("PAR1"), foot...), uint32(len(foot))), "PAR1"...)
		},
	} {
		bad := spoil(bytes.Clone(raw))
		if got, err := Head(bytes.NewReader(bad), int64(len(bad)), 10, 10); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// A page that says that it unpacks to more than may be is dots.
	if _, err := unpack(1, append(binary.AppendUvarint(nil, 1<<40), 0, 0), 100); err == nil {
		t.Error("a terabyte was unpacked")
	}
	if _, err := hybrid([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1}, 1, 1000); err == nil {
		t.Error("more groups than there are bytes")
	}
	if got, err := hybrid([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 1}, 1, 1000); err != nil || len(got) != 1000 {
		t.Errorf("a run of two billion: %d, %v", len(got), err)
	}
}

// FuzzHead: no file makes it fail otherwise than by an error, or keep more than it may.
func FuzzHead(f *testing.F) {
	for _, name := range files {
		raw := load(f, name)
		f.Add(raw)
		for _, at := range []int{10, 200, len(raw) / 2, len(raw) - 300, len(raw) - 20} {
			bad := bytes.Clone(raw)
			bad[at] ^= 0x55
			f.Add(bad)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		const rows, columns = 20, 20
		got, err := Head(bytes.NewReader(raw), int64(len(raw)), rows, columns)
		if err != nil {
			return
		}
		if len(got.Rows) > rows || len(got.Columns) > columns {
			t.Fatalf("%d rows of %d columns", len(got.Rows), len(got.Columns))
		}
		for _, r := range got.Rows {
			if len(r) != len(got.Columns) {
				t.Fatalf("%d cells in %d columns", len(r), len(got.Columns))
			}
			for _, cell := range r {
				if len(cell) > (most+1)*(maxText+4) {
					t.Fatalf("a cell of %d bytes", len(cell))
				}
			}
		}
	})
}
