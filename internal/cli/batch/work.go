package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Work is what one replica does.
type Work struct {
	In, Out       string   // the dataset, and $FERMI_OUTPUT
	Engine        []string // what answers; it listens on $PORT
	Health, Path  string
	Concurrency   int
	Part          int // lines of a file that is left
	Timeout       time.Duration
	Index, Of     int // which of how many replicas
	Log           io.Writer
	Earlier       Earlier
	asked, failed int
}

// Earlier is what attempts before this one left, by the path below the replica's name. It may be nil.
type Earlier interface {
	// List names them. Fetch writes one into a file.
	List(ctx context.Context) ([]string, error)
	Fetch(ctx context.Context, output, file string) error
}

// Run answers all questions that are this replica's.
func (w *Work) Run(ctx context.Context) error {
	done, err := w.before(ctx)
	if err != nil {
		return fmt.Errorf("what was answered before is not known: %w", err)
	}
	var e *engine
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		if e != nil {
			<-e.died
		}
	}()
	n, whole := 0, 0
	err = eachPart(w.In, w.Part, func(p *part) error {
		mine := n%w.Of == w.Index
		n++
		if !mine {
			return nil
		}
		at := w.answers(p.name)
		if there, err := isThere(at); err != nil {
			return err
		} else if there || done[p.name] {
			whole++
			return nil
		}
		if e == nil {
			var err error
			if e, err = start(ctx, w.Engine, w.Timeout, w.Log); err != nil {
				return fmt.Errorf("the engine does not start: %w", err)
			}
			if err := e.ready(ctx, w.Health); err != nil {
				return err
			}
		}
		return w.answer(ctx, e, p)
	})
	if err != nil {
		return err
	}
	if whole > 0 {
		fmt.Fprintf(w.Log, "batch: %d parts were answered before\n", whole)
	}
	fmt.Fprintf(w.Log, "batch: %d questions answered, %d of them with an error\n", w.asked, w.failed)
	if w.asked > 0 && w.asked == w.failed {
		return errors.New("no question has a good answer; the first answers say why")
	}
	return nil
}

func (w *Work) answers(name string) string {
	return filepath.Join(w.Out, underAnswers, filepath.FromSlash(name))
}

func (w *Work) journal(name string) string {
	return filepath.Join(w.Out, underJournal, filepath.FromSlash(name))
}

// before finds what earlier attempts left: the names of parts that are whole; of others what was answered is fetched.
func (w *Work) before(ctx context.Context) (done map[string]bool, err error) {
	done = map[string]bool{}
	if w.Earlier == nil {
		return done, nil
	}
	list, err := w.Earlier.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, output := range list {
		if name, whole := ofPart(output); whole {
			done[name] = true
		}
	}
	for _, output := range list {
		name, whole := ofPart(output)
		if name == "" || whole || done[name] || !filepath.IsLocal(filepath.FromSlash(name)) {
			continue
		}
		at := w.journal(name)
		if there, err := isThere(at); there || err != nil {
			continue // this machine's own knows more
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return nil, err
		}
		if err := w.Earlier.Fetch(ctx, output, at); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// answer asks the questions of a part that have no answer yet, several at once, and leaves the part.
func (w *Work) answer(ctx context.Context, e *engine, p *part) error {
	j, err := openJournal(w.journal(p.name), len(p.lines))
	if err != nil {
		return err
	}
	known := len(j.have)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	room := make(chan struct{}, w.Concurrency)
	todo := make([]int, 0, len(p.lines))
	for i := range p.lines {
		if _, ok := j.have[i]; !ok {
			todo = append(todo, i)
		}
	}
	for _, i := range todo {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-room }()
			a, err := e.ask(ctx, &p.lines[i], w.Path)
			if err == nil {
				err = j.add(i, a)
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), j.file.Close())
	}
	failed := 0
	for _, a := range j.have {
		if a.Error != nil {
			failed++
		}
	}
	w.asked, w.failed = w.asked+len(p.lines), w.failed+failed
	if err := j.finish(w.answers(p.name), len(p.lines)); err != nil {
		return err
	}
	fmt.Fprintf(w.Log, "batch: %s: %d answered, %d of them before, %d with an error\n", p.name, len(p.lines), known, failed)
	return nil
}
