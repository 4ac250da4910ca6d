package preview

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"io"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/preview/parquet"
)

// Bounds of what is shown.
const (
	maxShown   = 64 << 10
	maxTable   = 256 << 10
	maxRows    = 100
	maxColumns = 200
	maxCell    = 512
	maxPicture = 4 << 20
	maxPixels  = 64 << 20
)

// Of shows the beginning of a file: text, rows, or a picture whose header says that it is one. What it read and what it makes are bounded.
func Of(r io.ReadSeeker, f asset.File) (asset.AssetPreview, error) {
	out := asset.AssetPreview{Kind: "empty", Size: api.Bytes(f.Size)}
	if f.Size == 0 {
		return out, nil
	}
	head, err := io.ReadAll(io.LimitReader(r, maxTable))
	if err != nil {
		return out, err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return out, err
	}
	if shown, err := picture(r, head, f.Size, &out); shown || err != nil {
		return out, err
	}
	if parquet.Is(head) && columnar(r, f.Size, &out) {
		return out, nil
	}
	cut := int64(len(head)) < f.Size
	comma := map[string]rune{".csv": ',', ".tsv": '\t'}[strings.ToLower(path.Ext(f.Path))]
	if comma != 0 && table(head, comma, cut, &out) {
		return out, nil
	}
	if len(head) > maxShown {
		head, cut = head[:maxShown], true
	}
	if !isText(head, cut) {
		out.Kind = "binary"
		return out, nil
	}
	out.Kind, out.Text, out.Cut = "text", strings.ToValidUTF8(string(head), ""), cut
	return out, nil
}

// isText says that bytes can be shown; the last character may be cut.
func isText(p []byte, cut bool) bool {
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 {
			return cut && len(p) < utf8.UTFMax
		}
		if unicode.IsControl(r) && !strings.ContainsRune("\t\r\n\f\x1b", r) {
			return false
		}
		p = p[n:]
	}
	return true
}

// picture shows a small one.
func picture(r io.ReadSeeker, head []byte, size int64, out *asset.AssetPreview) (bool, error) {
	cfg, format, err := image.DecodeConfig(bytes.NewReader(head))
	if err != nil {
		return false, nil
	}
	out.Kind, out.Width, out.Height, out.Media = "image", cfg.Width, cfg.Height, "image/"+format
	if size > maxPicture || cfg.Width <= 0 || cfg.Height <= 0 || cfg.Width > maxPixels/cfg.Height {
		out.Cut = true
		return true, nil
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxPicture))
	out.Image = base64.StdEncoding.EncodeToString(raw)
	return true, err
}

// columnar shows the first rows of a Parquet file. One that is damaged is bytes; a reader that failed says so itself.
func columnar(r io.ReadSeeker, size int64, out *asset.AssetPreview) bool {
	t, err := parquet.Head(r, size, maxRows, maxColumns)
	if err != nil {
		return false
	}
	for i := range t.Columns {
		t.Columns[i] = clipCell(t.Columns[i])
	}
	for _, row := range t.Rows {
		for i := range row {
			row[i] = clipCell(row[i])
		}
	}
	out.Kind, out.Columns, out.Rows, out.Cut = "table", t.Columns, t.Rows, t.Cut
	return true
}

// table shows the first rows of a text in columns.
func table(head []byte, comma rune, cut bool, out *asset.AssetPreview) bool {
	if cut { // the last line may be half of one
		if i := bytes.LastIndexByte(head, '\n'); i >= 0 {
			head = head[:i+1]
		}
	}
	if !isText(head, cut) {
		return false
	}
	in := csv.NewReader(bytes.NewReader(head))
	in.Comma, in.FieldsPerRecord, in.LazyQuotes = comma, -1, true
	for {
		row, err := in.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return out.Columns != nil && cut
		}
		if out.Columns != nil && len(out.Rows) == maxRows {
			cut = true
			break
		}
		row = row[:min(len(row), maxColumns)]
		for i := range row {
			row[i] = clipCell(row[i])
		}
		if out.Columns == nil {
			out.Columns = row
		} else {
			out.Rows = append(out.Rows, row)
		}
	}
	out.Kind, out.Cut = "table", cut
	return out.Columns != nil
}

func clipCell(s string) string {
	if len(s) > maxCell {
		s = s[:maxCell] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}
