package inside

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// Wall says what stands around a command.
type Wall struct {
	// Mark is in the environment of process 1, as FERMI_REPLICA is in those of the others.
	Mark     string
	UID, GID int
	// Hide are the platform's own folders. They look empty, but for Binds.
	Hide []string
	// Binds are the folders and files that stay visible at their own paths.
	Binds []string
	// Folders are those of the machine that an operator named and the project was granted, each seen whole, at its own path; and ours, see Folder.At.
	Folders []Folder
	// Tmp and VarTmp become /tmp and /var/tmp.
	Tmp, VarTmp string
	// SharedMemory bounds /dev/shm, in bytes; 0 leaves it to the kernel, half of the memory.
	SharedMemory int64
	// Net is the descriptor of the network namespace to enter; 0: the caller's own.
	Net uintptr
	Shown
	Image
	// Alone has no network at all.
	Alone bool
	// Placed are files of the machine that are found elsewhere in the image: where → what.
	Placed map[string]string
	// Door, if any, leads the command into its cgroup: a version 1 list of threads, or with Clone a version 2 folder to
	// clone into. Process 1 itself stays outside.
	Door  *os.File `json:"-"`
	Clone bool
}

// Shown is what is seen behind a wall at other places than before it.
type Shown struct {
	// Files stand in the place of the machine's: which → by what.
	Files map[string]string
	// Extras are a convenience: where → what. A folder is laid over what is there. What can't be shown, or would be in the way of what is there, is not.
	Extras map[string]string
}

// Image is what a wall stands in, if that is not the machine's own file system.
type Image struct {
	// Root is the file system of an image to run in, which nobody can write to; "": the machine's own.
	Root string
	// Stage is an empty folder in which the mounts of such a wall are put together.
	Stage string
	// IDs are those of the user namespace of which the command is root; none: it is UID, without one of its own.
	IDs []IDs
	// GroupIDs are those of groups, where they are others.
	GroupIDs []IDs
	// User is who the command is in there.
	User User
	// Maker is who the image's files belong to on the disk; in the user namespace they belong to root.
	Maker int
	// Layer is a folder of the machine's root, with the folders LayerUpper and LayerWork, that takes what is written over the image; "": nobody can
	// write to it.
	Layer string
	// Frozen is such a folder that nobody can write to, and Base where the bare image is found beside.
	Frozen, Base string
}

// Folder is a folder of the machine. Its path is an operator's word, or ours: root opens it.
type Folder struct {
	Path     string
	Real     string // where it must lead, without links; "": nobody knows
	Below    string // what of it is seen: a path in it, a tenant's word, which is opened with the tenant's rights; "": all of it
	ReadOnly bool
	// At is where it is seen, with nothing else of its first folder; "": at its own path. One of ours, which has no Real, is read-only.
	At string
}

// Command is what runs behind it: a process for each of Each.
type Command struct {
	Args []string
	Env  []string   // of all
	Each [][]string // further variables, of one process each; at least one
	// Dir and File, the program, are paths behind the wall. Nobody looks at them before the user's own process does: who
	// wants to know more than that it did not start asks before. Of a command with IDs File may be "": what Args[0] names there.
	Dir, File string
	// Orphans: the end of every process that comes to process 1 is reported, by its pid in there.
	Orphans bool
	// Become makes process 1 the command itself, which is one process then: nobody reports its end.
	Become bool
	// Program is what process 1 runs, "" Whole. All that is done in there is in this package and in deed, so a program of those two
	// does, and begins in a quarter of the time: see the package program.
	Program string `json:"-"`
	// Itself: who has become the command goes on with Program. File says nothing then.
	Itself bool
}

// order is what process 1 is told. Probe builds the wall and starts nothing.
type order struct {
	Wall
	Command
	Probe   bool
	Outputs int  // how many pairs of pipes come along
	HasDoor bool // so does Door
}

// The steps at which a command may be refused.
const (
	StepExec   = "exec"   // the kernel did not run it
	StepFolder = "folder" // one of Folders can't be shown
	StepBuild  = "build"  // the wall itself could not be built
	StepLayer  = "layer"  // what was written over the image is in the way

	stepStarted = "started"
	stepEnded   = "ended"
	stepOrphan  = "orphan"
)

// report is what process 1 says.
type report struct {
	Step    string
	Errno   syscall.Errno      `json:",omitempty"`
	File    string             `json:",omitempty"`
	Text    string             `json:",omitempty"`
	Process int                `json:",omitempty"` // whose end, by its place in Each
	PID     int                `json:",omitempty"` // of an orphan, as seen inside
	Status  syscall.WaitStatus `json:",omitempty"`
	Missing []string           `json:",omitempty"` // parts of the wall that this kernel lacks
}

// maxReport bounds what is read ahead of reports; they come from our own program, but cost nothing to bound.
const maxReport = 64 << 10

// argv0 tells the second start from any other.
const argv0 = "fermi-inside"

// Pipes are the standard output and error of one process.
type Pipes [2]uintptr

// Tree is what was started: process 1 as seen from outside, and its word on the processes' ends.
type Tree struct {
	PID     int
	Handle  int // of a Command with Become: a descriptor of the process; the caller's to close
	limit   *io.LimitedReader
	reports *json.Decoder
	pipe    *os.File
	rooted  bool
	mu      sync.Mutex
	orders  *os.File // to the holder; nil: there is none, or it has ended
}

// Start builds the wall and runs the command behind it, each process with its pipes; one of r, which may be nil, becomes process 1.
// The caller reaps Tree.PID. A *Refused is the user's to mend: then none runs.
func Start(r *Ready, w Wall, c Command, stdin uintptr, out []Pipes) (*Tree, error) {
	if a := r.take(); a != nil {
		tree, err := a.start(w, c, stdin, out)
		var no *Refused
		if err == nil || errors.As(err, &no) {
			return tree, err
		} // it was ended while it waited
	}
	a, err := prepare(w.Mark, c.Program)
	if err != nil {
		return nil, err
	}
	return a.start(w, c, stdin, out)
}

// start uses it up.
func (a *ahead) start(w Wall, c Command, stdin uintptr, out []Pipes) (*Tree, error) {
	if len(out) == 0 || len(out) != len(c.Each) {
		a.drop()
		return nil, fmt.Errorf("%d processes with %d pairs of pipes", len(c.Each), len(out))
	}
	t := a.tell(order{Wall: w, Command: c}, stdin, out)
	r, err := t.next()
	if err == nil && r.Step == stepStarted {
		if c.Become {
			_ = t.pipe.Close()
		} else {
			_ = syscall.Close(t.Handle)
		}
		return t, nil
	}
	a.drop()
	if err != nil {
		return nil, fmt.Errorf("process 1 ended before it started anything: %w", err)
	}
	return nil, &Refused{Step: r.Step, File: r.File, Errno: r.Errno, Text: r.Text}
}

// Ended waits for the next end of a process; what they left may live on in Tree. An error means that
// process 1 has ended, and everything with it: the end of those unheard is its own wait status.
func (t *Tree) Ended() (process int, status syscall.WaitStatus, err error) {
	process, _, status, err = t.EndedOrphan()
	return process, status, err
}

// EndedOrphan is Ended of a command with Orphans; process is -1 for an orphan, whose pid it then is.
func (t *Tree) EndedOrphan() (process, pid int, status syscall.WaitStatus, err error) {
	r, err := t.next()
	switch {
	case err == nil && r.Step == stepOrphan:
		return -1, r.PID, r.Status, nil
	case err == nil && r.Step != stepEnded:
		err = fmt.Errorf("process 1 said %q", r.Step)
	}
	if err != nil {
		_ = t.pipe.Close()
		t.mu.Lock()
		if t.orders != nil {
			_ = t.orders.Close()
			t.orders = nil
		}
		t.mu.Unlock()
	}
	return r.Process, 0, r.Status, err
}

func (t *Tree) next() (report, error) {
	var r report
	t.limit.N = maxReport
	err := t.reports.Decode(&r)
	return r, err
}

// Refused is a command that could not be started behind the wall.
type Refused struct {
	Step, File, Text string
	Errno            syscall.Errno
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%s %q: %s%s", r.Step, r.File, r.Text, r.Errno.Error())
}
func (r *Refused) Unwrap() error { return r.Errno }

// Probe says whether walls can be built here: err is why not, missing names what this kernel lacks.
// tmp is any folder, net as in Wall.
func Probe(uid int, hide []string, tmp string, net uintptr) (missing []string, err error) {
	if os.Geteuid() != 0 {
		return nil, ErrNotRoot
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	a, err := prepare("", "")
	if err != nil {
		return nil, err
	}
	defer a.drop()
	t := a.tell(order{Wall: Wall{UID: uid, GID: uid, Hide: hide, Tmp: tmp, VarTmp: tmp, Net: net}, Probe: true}, null.Fd(), []Pipes{{null.Fd(), null.Fd()}})
	r, err := t.next()
	if err == nil && r.Step != stepStarted {
		err = &Refused{Step: r.Step, File: r.File, Errno: r.Errno, Text: r.Text}
	}
	return r.Missing, err
}

// ErrNotRoot says that only root can build walls.
var ErrNotRoot = errors.New("not root")
