package asset

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// The formats of models.
const (
	Safetensors = "safetensors"
	Torch       = "torch"
	ONNX        = "onnx"
	SavedModel  = "savedmodel"
	GGUF        = "gguf"
	JSON        = "json"
	Unknown     = "unknown"
)

// ReadSeeker reads a file of a version.
type ReadSeeker = io.ReadSeeker

// maxLooked is how many files are looked into, and maxHeader how much of a header is believed to be one.
const (
	maxLooked = 64
	maxHeader = 100 << 20
)

// FormatOf reads from the bytes what a model is; nothing in it is ever run or unpickled. A file whose name says a format that its bytes are not is refused.
func FormatOf(m *asset.Manifest, open func(file int) ReadSeeker) (string, error) {
	found := []string{}
	looked := 0
	for i := range m.Files {
		if looked == maxLooked {
			break
		}
		f := &m.Files[i]
		want := claimed(f.Path)
		if want == "" && f.Size < 8 {
			continue
		}
		if want == "" && len(m.Files) > 1 && path.Ext(f.Path) != "" && path.Ext(f.Path) != ".bin" {
			continue
		}
		looked++
		is, err := formatOf(open(i), f.Size)
		if err != nil {
			return "", err
		}
		if want != "" && is != want && !(want == Torch && is == Unknown) {
			return "", fault.New(fault.Invalid, "NotThatFormat", fault.T("The file %.200q is called %s, but its bytes are not (%s).", "文件 %.200q 名为 %s，但内容并非如此（%s）。", f.Path, want, is)).
				WithHint(fault.T("Give the file its true name, or save the model again.", "请使用正确的文件名，或重新保存模型。"))
		}
		if is != Unknown {
			found = append(found, is)
		}
	}
	for _, best := range []string{Safetensors, GGUF, ONNX, SavedModel, Torch, JSON} {
		if slices.Contains(found, best) {
			return best, nil
		}
	}
	return Unknown, nil
}

// claimed is the format that a name says; "": none.
func claimed(name string) string {
	switch base := path.Base(name); {
	case base == "saved_model.pb":
		return SavedModel
	case strings.HasSuffix(base, ".safetensors"):
		return Safetensors
	case strings.HasSuffix(base, ".gguf"):
		return GGUF
	case strings.HasSuffix(base, ".onnx"):
		return ONNX
	case strings.HasSuffix(base, ".pt"), strings.HasSuffix(base, ".pth"):
		return Torch
	case base == "model.json":
		return JSON
	}
	return ""
}

// formatOf looks at the beginning of a file, and where its own lengths say it ends.
func formatOf(r ReadSeeker, size int64) (string, error) {
	head := make([]byte, 4096)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return "", err
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("GGUF")) && isGGUF(head):
		return GGUF, nil
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return zipFormat(head), nil
	}
	if is, err := isSafetensors(r, head, size); is || err != nil {
		return Safetensors, err
	}
	switch {
	case isSavedModel(head):
		return SavedModel, nil
	case isONNX(head):
		return ONNX, nil
	case isJSON(head, size):
		return JSON, nil
	}
	return Unknown, nil
}

// isGGUF: magic, a version, and counts that a file could have.
func isGGUF(head []byte) bool {
	if len(head) < 24 {
		return false
	}
	version, tensors, pairs := binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint64(head[8:]), binary.LittleEndian.Uint64(head[16:])
	return version >= 1 && version <= 9 && tensors < 1<<24 && pairs < 1<<24
}

// zipFormat: what torch.save writes is a zip whose first entry is NAME/data.pkl, or beside it.
func zipFormat(head []byte) string {
	if len(head) < 30 {
		return Unknown
	}
	length := int(binary.LittleEndian.Uint16(head[26:]))
	if 30+length > len(head) {
		return Unknown
	}
	name := string(head[30 : 30+length])
	if _, rest, ok := strings.Cut(name, "/"); ok && (rest == "data.pkl" || rest == "version" || strings.HasPrefix(rest, ".format_version") || rest == "byteorder" || rest == ".data/serialization_id") {
		return Torch
	}
	return Unknown
}

// isSafetensors: eight bytes of length, a JSON object of that length, and tensors that end where the file does.
func isSafetensors(r ReadSeeker, head []byte, size int64) (bool, error) {
	if len(head) < 10 || head[8] != '{' {
		return false, nil
	}
	length := binary.LittleEndian.Uint64(head)
	if length > maxHeader || int64(length)+8 > size {
		return false, nil
	}
	if _, err := r.Seek(8, io.SeekStart); err != nil {
		return false, err
	}
	raw := make([]byte, length)
	if _, err := io.ReadFull(r, raw); err != nil {
		return false, err
	}
	var tensors map[string]struct {
		Offsets []int64 `json:"data_offsets"`
	}
	if json.Unmarshal(bytes.TrimRight(raw, " "), &tensors) != nil {
		return false, nil
	}
	end := int64(0)
	for name, t := range tensors {
		if name == "__metadata__" {
			continue
		}
		if len(t.Offsets) != 2 || t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] {
			return false, nil
		}
		end = max(end, t.Offsets[1])
	}
	return end == size-8-int64(length), nil
}

// isONNX: a protobuf that begins with ir_version, a small number, and goes on with a field of a model.
func isONNX(head []byte) bool {
	if len(head) < 4 || head[0] != 0x08 || head[1] == 0 || head[1] > 32 {
		return false
	}
	switch head[2] {
	case 0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72: // producer, version, domain, model version, doc, graph, opset, metadata
		return true
	}
	return false
}

// isSavedModel: a protobuf that begins with saved_model_schema_version 1 and a meta graph.
func isSavedModel(head []byte) bool {
	return len(head) > 4 && head[0] == 0x08 && head[1] == 0x01 && head[2] == 0x12 && bytes.Contains(head, []byte("serve"))
}

// isJSON looks at what is read of it.
func isJSON(head []byte, size int64) bool {
	text := bytes.TrimSpace(head)
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return false
	}
	return int64(len(head)) < size || json.Valid(text)
}
