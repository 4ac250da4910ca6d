package parquet

import (
	"encoding/binary"
	"io"
)

// Bounds of one look.
const (
	maxFooter = 8 << 20
	maxName   = 256
	maxNodes  = 20_000   // of the schema
	maxHead   = 64 << 10 // the head of a page, with what it says of its values
	maxPage   = 8 << 20  // as it lies there, and unpacked
	maxBytes  = 48 << 20 // all pages together
	maxPages  = 4096     // likewise
	maxValues = 100_000  // of one column: its lists may be long
)

// magic is at both ends of a file.
const magic = "PAR1"

// Table is the beginning of a file.
type Table struct {
	Columns []string
	Rows    [][]string
	Cut     bool // there is more
}

// Is says that a file with these first bytes may be one.
func Is(head []byte) bool { return len(head) >= len(magic) && string(head[:len(magic)]) == magic }

// Head reads the first rows of the first columns.
func Head(r io.ReadSeeker, size int64, rows, columns int) (*Table, error) {
	end := make([]byte, 8)
	if size < 12 {
		return nil, errBad
	}
	if err := readAt(r, size-8, end); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(end))
	if string(end[4:]) != magic || n > maxFooter || n > size-12 {
		return nil, errBad
	}
	raw := make([]byte, n)
	if err := readAt(r, size-8-n, raw); err != nil {
		return nil, err
	}
	f, err := readFooter(raw)
	if err != nil {
		return nil, err
	}
	t := &Table{Cut: len(f.leaves) > columns}
	leaves := f.leaves[:min(len(f.leaves), columns)]
	if len(leaves) == 0 {
		return nil, errBad
	}
	for i := range leaves {
		t.Columns = append(t.Columns, leaves[i].name)
	}
	if f.first == nil || f.first.rows <= 0 {
		return t, nil
	}
	count := int(min(int64(rows), f.first.rows))
	t.Cut = t.Cut || f.rows > int64(count)
	t.Rows = make([][]string, count)
	for i := range t.Rows {
		t.Rows[i] = make([]string, len(leaves))
	}
	in := &pages{r: r, size: size - 8 - n, bytes: maxBytes, left: maxPages}
	for i := range leaves {
		var cells []string
		if i < len(f.first.chunks) {
			c := column{leaf: &leaves[i], chunk: f.first.chunks[i], rows: count}
			cells, err = c.read(in)
			if err != nil && in.failed != nil {
				return nil, in.failed // the file could not be read; that is not its own fault
			}
		}
		for row := range t.Rows {
			if row < len(cells) && err == nil {
				t.Rows[row][i] = cells[row]
			} else {
				t.Rows[row][i] = unknown
			}
		}
	}
	return t, nil
}

// unknown stands where a value can't be shown.
const unknown = "…"

func readAt(r io.ReadSeeker, at int64, p []byte) error {
	if _, err := r.Seek(at, io.SeekStart); err != nil {
		return err
	}
	_, err := io.ReadFull(r, p)
	return err
}
