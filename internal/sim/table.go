package sim

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxRows bounds a trace, maxText one of its fields.
const (
	maxRows = 5_000_000
	maxText = 256
)

// Row is one row of a table; good until the next.
type Row struct {
	line   int
	at     map[string]int
	fields []string
	err    error
}

func badTrace(line int, what string, args ...any) error {
	said := fmt.Sprintf(what, args...)
	return fault.New(fault.Invalid, "BadTrace", fault.T("Line %d of the trace: %s.", "轨迹第 %d 行有误：%s。", line, said))
}

func (r *Row) bad(what string, args ...any) error { return badTrace(r.line, what, args...) }

// Has says whether the table has the column.
func (r *Row) Has(column string) bool {
	_, ok := r.at[column]
	return ok
}

// Text of a column; "" where there is none.
func (r *Row) Text(column string) string {
	i, ok := r.at[column]
	if !ok {
		return ""
	}
	if len(r.fields[i]) > maxText && r.err == nil {
		r.err = r.bad("%s has %d bytes; at most %d", column, len(r.fields[i]), maxText)
	}
	return r.fields[i]
}

// Count of a column, from 0 to max; 0 and an error of the row for anything else.
func (r *Row) Count(column string, max int64) int64 {
	text := r.Text(column)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > max {
		if r.err == nil {
			r.err = r.bad("%s is %.40q; a whole number from 0 to %d is needed", column, text, max)
		}
		return 0
	}
	return n
}

// Err is the first thing wrong with what was asked of the row.
func (r *Row) Err() error { return r.err }

// Table reads a CSV with a header strictly: it has the columns that are needed, and each row is
// handed over by column name.
func Table(r io.Reader, need []string, each func(Row) error) error {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return badTrace(1, "no header")
	}
	at := map[string]int{}
	for i, name := range head {
		at[name] = i
	}
	for _, name := range need {
		if _, ok := at[name]; !ok {
			return badTrace(1, "no column %q; needed: %v", name, need)
		}
	}
	for line := 2; ; line++ {
		rec, err := in.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil || line > maxRows {
			return badTrace(line, "not a row of the table, or one too many")
		}
		if err := each(Row{line: line, at: at, fields: rec}); err != nil {
			return err
		}
	}
}
