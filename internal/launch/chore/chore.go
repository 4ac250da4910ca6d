package chore

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/homecopy"
	"github.com/fermi-cluster/fermi/internal/launch/deed"
	"github.com/fermi-cluster/fermi/internal/launch/depot"
	"github.com/fermi-cluster/fermi/internal/launch/gitcode"
	"github.com/fermi-cluster/fermi/internal/launch/layer"
	"github.com/fermi-cluster/fermi/internal/launch/unpack"
)

// Argv0 tells a process that does chores from any other.
const Argv0 = "fermi-chore"

// Order is one chore; exactly one is set.
type Order struct {
	Unpack  *Unpack
	Clone   *Clone
	Settle  *Settle
	Fill    *Fill
	Fetch   *Fetch
	Keep    *Keep
	Lay     *Lay
	Drop    *Drop
	Compare *Compare
	Peel    *Peel
	Cover   *Cover
}

// Unpack lays out the archive that follows the order in a folder of the tenant's; what lay there goes.
type Unpack struct{ Dir string }

// Clone brings a repository into a folder of the tenant's; what lay there goes. Tmp is a private folder.
type Clone struct {
	Source   gitcode.Source
	Dir, Tmp string
}

// Fill fills a home that is empty from the files of a version of a dataset.
type Fill struct{ From, Home string }

// Peel writes down what was written over the image that is the root here.
type Peel struct{ To string }

func (p *Peel) write(ctx context.Context) error {
	f, err := os.OpenFile(p.To, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, _, err = layer.Diff(ctx, f)
	return errors.Join(err, f.Close())
}

// Cover writes over the bare image that is the root here what a version at From has of a layer.
type Cover struct{ From string }

func (c *Cover) lay(ctx context.Context) error {
	f, err := homecopy.OpenLayer(c.From)
	if err != nil {
		return err
	}
	return errors.Join(layer.Lay(ctx, f), f.Close())
}

// Result is what came of it.
type Result struct {
	Fault  *Fault `json:",omitempty"`
	Error  string `json:",omitempty"` // that may pass when tried again
	Disk   bool   `json:",omitempty"` // Error is the disk's, and won't pass
	Commit string `json:",omitempty"`
	Filled bool   `json:",omitempty"`
	Over   string `json:",omitempty"` // the digest of the image over which what it was filled with has a layer
	Image  *Image `json:",omitempty"`
	// Done and Total are bytes so far; a result that has them is followed by another.
	Done, Total int64 `json:",omitempty"`
}

// Fault is a fault.Error as it comes out of the process.
type Fault struct {
	Code          fault.Code
	Reason        string
	Message, Hint fault.Text
}

// Bounds of a result, which comes from a process of the tenant's uid.
const (
	MaxResult = 4 << 20
	maxText   = 2 << 10
)

func init() {
	if len(os.Args) == 1 && os.Args[0] == Argv0 {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
		_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
		result := work(context.Background(), os.Stdin)
		if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
			syscall.Exit(1)
		}
		syscall.Exit(0) // not os.Exit, which waits a second under the race detector
	}
}

// Send writes an order; what belongs to it follows.
func Send(w io.Writer, o Order) error {
	frame, err := deed.Frame(o)
	if err == nil {
		_, err = w.Write(frame)
	}
	return err
}

// work reads an order and does it.
func work(ctx context.Context, in io.Reader) Result {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return failed(err)
	}
	length, err := deed.Length(head[:])
	if err != nil {
		return failed(err)
	}
	var o Order
	if err := json.NewDecoder(io.LimitReader(in, int64(length))).Decode(&o); err != nil {
		return failed(err)
	}
	switch {
	case o.Unpack != nil:
		return failed(unpackInto(ctx, in, o.Unpack.Dir))
	case o.Clone != nil:
		if err := empty(o.Clone.Dir); err != nil {
			return failed(err)
		}
		commit, err := gitcode.Clone(ctx, o.Clone.Source, o.Clone.Dir, o.Clone.Tmp)
		r := failed(err)
		r.Commit = commit
		return r
	}
	if o.Settle != nil {
		commit, err := o.Settle.bring(ctx)
		r := failed(err)
		r.Commit = commit
		return r
	}
	if o.Fill != nil {
		filled, err := homecopy.Fill(ctx, o.Fill.From, o.Fill.Home)
		over, err2 := homecopy.ImageOf(o.Fill.From)
		r := failed(errors.Join(err, err2))
		r.Filled, r.Over = filled, over
		return r
	}
	if o.Peel != nil {
		return failed(o.Peel.write(ctx))
	}
	if o.Cover != nil {
		return failed(o.Cover.lay(ctx))
	}
	if o.Fetch != nil {
		return failed(o.Fetch.serve(os.Stderr))
	}
	if o.Keep != nil {
		return o.Keep.bring(ctx, os.Stderr, os.Stdout)
	}
	if o.Lay != nil {
		return o.Lay.bring(ctx, os.Stderr, os.Stdout)
	}
	if o.Compare != nil {
		return failed(o.Compare.hold(os.Stderr))
	}
	if o.Drop != nil {
		return failed(depot.Drop(o.Drop.Place, o.Drop.Digest))
	}
	return failed(errors.New("no chore"))
}

func unpackInto(ctx context.Context, in io.Reader, dir string) error {
	if err := empty(dir); err != nil {
		return err
	}
	if _, err := unpack.Unpack(ctx, in, dir, unpack.DefaultLimits); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in) // what follows the archive's end is part of its digest
	return err
}

// empty removes what an earlier try left in a folder.
func empty(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	list, err := fs.ReadDir(root.FS(), ".")
	for _, e := range list {
		err = errors.Join(err, root.RemoveAll(e.Name()))
	}
	return err
}

// failed is a result in words; nil is none.
func failed(err error) Result {
	var f *fault.Error
	var disk *fs.PathError
	switch {
	case err == nil:
		return Result{}
	case errors.As(err, &f):
		return Result{Fault: &Fault{Code: f.Code, Reason: f.Reason, Message: f.Message, Hint: f.Hint}, Error: short(err.Error())}
	}
	return Result{Error: short(err.Error()), Disk: errors.As(err, &disk)}
}

func short(s string) string { return s[:min(len(s), maxText)] }

// Hear reads a result, as input like any other. err is what the chore came to; progress, which may be nil, hears how far it is.
func Hear(r io.Reader, progress func(done, total int64)) (Result, error) {
	var out Result
	limit := &io.LimitedReader{R: r, N: MaxResult}
	for words := json.NewDecoder(limit); ; limit.N = MaxResult {
		out = Result{}
		if err := words.Decode(&out); err != nil {
			return Result{}, errors.Join(ErrNoWord, err)
		}
		if out.Total == 0 {
			break
		}
		if progress != nil {
			progress(out.Done, out.Total)
		}
	}
	return out, out.err()
}

// err is what a result comes to, as input like any other.
func (r *Result) err() error {
	r.Error, r.Commit, r.Over = short(r.Error), short(r.Commit), short(r.Over)
	switch {
	case r.Fault != nil:
		f := r.Fault
		for _, s := range []*string{&f.Reason, &f.Message.EN, &f.Message.ZH, &f.Hint.EN, &f.Hint.ZH} {
			*s = short(*s)
		}
		return fault.New(f.Code, f.Reason, f.Message).WithHint(f.Hint).Because(errors.New(r.Error))
	case r.Disk:
		return &fs.PathError{Op: "chore", Path: "", Err: errors.New(r.Error)}
	case r.Error != "":
		return errors.New(r.Error)
	}
	return nil
}

// ErrNoWord says that the process ended without a result: it was killed, or could not start.
var ErrNoWord = errors.New("the process that does it ended early")
