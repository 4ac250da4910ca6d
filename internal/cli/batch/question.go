package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of what is read.
const (
	maxLine   = 32 << 20
	maxAnswer = 64 << 20
	maxFiles  = 100_000
	suffix    = ".jsonl"
)

// question is one line of the dataset: the body of a request, or a request as OpenAI's batch files have it.
type question struct {
	id   string
	path string // "": the usual one
	body []byte
	bad  string // why it can't be asked; "": it can
}

// Answer is one line of what is left, as OpenAI's batch files have it.
type Answer struct {
	ID       string    `json:"custom_id"`
	Response *Response `json:"response"`
	Error    *Problem  `json:"error"`
}

// Response is what the engine said.
type Response struct {
	Status int             `json:"status_code"`
	Body   json.RawMessage `json:"body"`
}

// Problem is why there is no good answer.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// parse reads a line; where says which one it is, for those that have no name of their own.
func parse(line []byte, where string) question {
	var own struct {
		ID   *string         `json:"custom_id"`
		URL  string          `json:"url"`
		Body json.RawMessage `json:"body"`
	}
	if !json.Valid(line) {
		return question{id: where, bad: "the line is not JSON"}
	}
	if json.Unmarshal(line, &own) == nil && own.ID != nil && own.Body != nil {
		q := question{id: *own.ID, path: own.URL, body: own.Body}
		if q.path != "" && (!strings.HasPrefix(q.path, "/") || strings.HasPrefix(q.path, "//")) {
			q.bad = "url is not a path, such as /v1/chat/completions"
		}
		return q
	}
	return question{id: where, body: line}
}

// part is a number of lines of one file: what is left as one file.
type part struct {
	name  string // of the file that is left
	first int    // its first line, from 1
	lines []question
}

// files are those of a dataset that have questions, by name.
func files(root string) (out []string, err error) {
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Type().IsRegular() && strings.HasSuffix(at, suffix) {
			name, err := filepath.Rel(root, at)
			if err != nil {
				return err
			}
			out = append(out, filepath.ToSlash(name))
		}
		if len(out) > maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		return nil
	})
	slices.Sort(out)
	if err == nil && len(out) == 0 {
		err = errors.New("the dataset has no file *.jsonl: a line is a question")
	}
	return out, err
}

// eachPart reads the parts of all files, one after the other, until do fails. Parts have the same names each time.
func eachPart(root string, size int, do func(*part) error) error {
	names, err := files(root)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := partsOf(root, name, size, do); err != nil {
			return err
		}
	}
	return nil
}

func partsOf(root, name string, size int, do func(*part) error) error {
	f, err := os.Open(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 64<<10)
	for n, at := 0, 1; ; n++ {
		p := &part{name: fmt.Sprintf("%s.%06d%s", strings.TrimSuffix(name, suffix), n, suffix), first: at}
		for len(p.lines) < size {
			line, err := readLine(in)
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("%s, line %d: %w", name, at, err)
			}
			if line = bytes.TrimSpace(line); len(line) > 0 {
				p.lines = append(p.lines, parse(line, fmt.Sprintf("%s:%d", name, at)))
			}
			at++
		}
		if len(p.lines) == 0 {
			return nil
		}
		if err := do(p); err != nil {
			return err
		}
	}
}

// readLine reads up to the next end of a line; io.EOF: there is none.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if line = append(line, piece...); len(line) > maxLine {
			return nil, fmt.Errorf("it is longer than %d bytes", maxLine)
		}
		switch {
		case err == nil || err == io.EOF && len(line) > 0:
			return line, nil
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}
