package asset

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// inMemory is a folder of files.
type inMemory map[string][]byte

func (f inMemory) open(path string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(f[path])), nil
}

func (f inMemory) files() (out []File) {
	for path, data := range f {
		out = append(out, File{Path: path, Size: int64(len(data))})
	}
	slices.SortFunc(out, func(a, b File) int { return Compare(a.Path, b.Path) })
	return out
}

// one changes a single file of many: few chunks are new, whether the file keeps its length or not.
func TestOneChangedFile(t *testing.T) {
	all := inMemory{"big/model.bin": bytes.Repeat([]byte("0123456789abcdef"), 1<<20)}
	for i := range 5000 {
		all[fmt.Sprintf("images/%02d/%d.png", i%50, i)] = bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 2000+i%100)
	}
	first, err := Build(context.Background(), all.files(), all.open, nil)
	if err != nil {
		t.Fatal(err)
	}
	had := map[Hash]bool{}
	for _, c := range first.Chunks {
		had[c.Hash] = true
	}
	for name, data := range map[string][]byte{"images/07/1007.png": []byte("other"), "images/07/another.png": []byte("new"), "images/00/0.png": bytes.Repeat([]byte{9}, 4000)} {
		next := inMemory{}
		for k, v := range all {
			next[k] = v
		}
		next[name] = data
		m, err := Build(context.Background(), next.files(), next.open, nil)
		if err != nil {
			t.Fatal(err)
		}
		fresh := 0
		for _, c := range m.Chunks {
			if !had[c.Hash] {
				fresh++
			}
		}
		if fresh == 0 || fresh > 3 {
			t.Errorf("%s: %d of %d chunks are new", name, fresh, len(m.Chunks))
		}
	}
}

func TestManifestIsReadBack(t *testing.T) {
	all := inMemory{"a": []byte("1"), "a.b": nil, "b/c": []byte("23"), "b/d/e": []byte("4")}
	m, err := Build(context.Background(), all.files(), all.open, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, sum := m.Encode()
	back, err := Decode(raw)
	if err != nil || back.Size() != 4 || Sum(raw) != sum {
		t.Fatalf("%v %+v", err, back)
	}
	if i, ok := back.Find("b/d/e"); !ok || back.Files[i].Path != "b/d/e" {
		t.Error("a file is not found")
	}
	if _, ok := back.Find("b/d"); ok {
		t.Error("a folder is found as a file")
	}
}

func TestRefused(t *testing.T) {
	chunk := Chunk{Sum([]byte("x")), 1}
	for name, m := range map[string]*Manifest{
		"nothing":             {Version: 1},
		"another form":        {Version: 2, Files: []File{{Path: "a"}}},
		"a way out":           {Version: 1, Files: []File{{Path: "../a"}}},
		"absolute":            {Version: 1, Files: []File{{Path: "/a"}}},
		"a dot":               {Version: 1, Files: []File{{Path: "a/./b"}}},
		"a backslash":         {Version: 1, Files: []File{{Path: `a\b`}}},
		"a line end":          {Version: 1, Files: []File{{Path: "a\nb"}}},
		"a long name":         {Version: 1, Files: []File{{Path: strings.Repeat("a", 256)}}},
		"out of order":        {Version: 1, Files: []File{{Path: "b"}, {Path: "a"}}},
		"twice":               {Version: 1, Files: []File{{Path: "a"}, {Path: "a"}}},
		"a file and a folder": {Version: 1, Files: []File{{Path: "a"}, {Path: "a/b"}}},
		"negative":            {Version: 1, Files: []File{{Path: "a", Size: -1}}},
		"too few chunks":      {Version: 1, Files: []File{{Path: "a", Size: 2}}, Chunks: []Chunk{chunk}},
		"too many chunks":     {Version: 1, Files: []File{{Path: "a", Size: 1}}, Chunks: []Chunk{chunk, chunk}},
		"an empty chunk":      {Version: 1, Files: []File{{Path: "a"}}, Chunks: []Chunk{{}}},
	} {
		raw, _ := m.Encode()
		if _, err := Decode(raw); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, text := range []string{"", "{}", "null", `{"version":1,"files":[{"path":"a","size":0}]}x`, `{"version":1,"files":[{"path":"a","size":0,"mode":1}]}`} {
		if _, err := Decode([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// FuzzDecode: what is taken can be laid out, and is written back as it can be read again.
func FuzzDecode(f *testing.F) {
	all := inMemory{"a": []byte("1"), "b/c": []byte("23")}
	m, err := Build(context.Background(), all.files(), all.open, nil)
	if err != nil {
		f.Fatal(err)
	}
	raw, _ := m.Encode()
	f.Add(raw)
	f.Add([]byte(`{"version":1,"files":[{"path":"a","size":1,"tag":"x"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, read := range []func([]byte) (*Manifest, error){Decode, DecodeListing} {
			m, err := read(raw)
			if err != nil {
				continue
			}
			for i := range m.Files {
				p := m.Files[i].Path
				if strings.HasPrefix(p, "/") || slices.Contains(strings.Split(p, "/"), "..") {
					t.Fatalf("%q leads out", p)
				}
				if j, ok := m.Find(p); !ok || j != i {
					t.Fatalf("%q is not found", p)
				}
			}
			again, _ := m.Encode()
			if _, err := read(again); err != nil {
				t.Fatal(err)
			}
		}
	})
}
