package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Folders below $FERMI_OUTPUT: parts that are whole, and what is answered of those that are not.
const (
	underAnswers = "answers"
	underJournal = "journal"
)

// entry is one answer in a journal.
type entry struct {
	Line   int    `json:"line"` // in its part, from 0
	Answer Answer `json:"answer"`
}

// journal is what is answered of a part so far. Each entry is written at once; what a crash tore is cut off.
type journal struct {
	mu   sync.Mutex
	file *os.File
	have map[int]Answer
}

// openJournal reads what there is.
func openJournal(at string, lines int) (*journal, error) {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(at, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{file: f, have: map[int]Answer{}}
	in, good := bufio.NewReader(f), int64(0)
	for {
		line, err := readLine(in)
		var e entry
		if err != nil || !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &e) != nil || e.Line < 0 || e.Line >= lines {
			break
		}
		j.have[e.Line] = e.Answer
		good += int64(len(line))
	}
	_, seek := f.Seek(good, io.SeekStart)
	if err := errors.Join(f.Truncate(good), seek); err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

// add writes an answer down.
func (j *journal) add(line int, a Answer) error {
	raw, err := json.Marshal(entry{line, a})
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.have[line] = a
	_, err = j.file.Write(append(raw, '\n'))
	return err
}

// finish leaves the whole part, then forgets the journal.
func (j *journal) finish(at string, lines int) error {
	defer j.file.Close()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	fresh := j.file.Name() + ".new"
	f, err := os.Create(fresh)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	for i := range lines {
		raw, err := json.Marshal(j.have[i])
		if err != nil {
			f.Close()
			return err
		}
		_, _ = out.Write(append(raw, '\n')) // Flush says it
	}
	if err := errors.Join(out.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(fresh, at); err != nil {
		return err
	}
	return os.Remove(j.file.Name())
}

// isThere says that a part was left whole.
func isThere(at string) (bool, error) {
	_, err := os.Stat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ofPart is the part that an output of an earlier attempt belongs to, and whether it is whole; "": to none.
func ofPart(output string) (name string, whole bool) {
	_, file, _ := strings.Cut(output, "/") // behind the replica's name
	folder, name, ok := strings.Cut(file, "/")
	switch {
	case !ok || !strings.HasSuffix(name, suffix):
		return "", false
	case folder == underAnswers:
		return name, true
	case folder == underJournal:
		return name, false
	}
	return "", false
}
